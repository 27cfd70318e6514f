"""Paths through `smartclient.wire`."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.replies import anthropic_stream, openai_reply, openai_stream
from smartclient.wire import Adapter, recognise
from smartclient.wire.sse import SSEDecoder

__all__ = ["anthropic_event", "openai_event", "openai_whole", "sse_burst"]


def sse_burst() -> Callable[[], object]:
    burst = b"".join(anthropic_stream(200)[:200])

    def step() -> None:
        events = SSEDecoder().feed(burst)
        assert len(events) == 200

    return step


def anthropic_event() -> Callable[[], object]:
    return _part("/v1/messages", anthropic_stream(8)[4])


def openai_event() -> Callable[[], object]:
    return _part("/v1/chat/completions", openai_stream(8)[4])


def openai_whole() -> Callable[[], object]:
    adapter, body = recognise("POST", "/v1/chat/completions"), openai_reply()
    assert adapter is not None
    read = adapter.whole

    def step() -> None:
        assert read(body).delta.is_terminal

    return step


def _part(path: str, data: bytes) -> Callable[[], object]:
    adapter: Adapter | None = recognise("POST", path)
    assert adapter is not None
    read, (event,) = adapter.part, SSEDecoder().feed(data)

    def step() -> None:
        assert read(event).delta.has_tokens

    return step
