"""What a raw client sees of a fault, taken apart; and what it should see."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import server_reference
from server_reference.scripted import Answer, ManualClock
from server_reference.scripted.faults import fault
from server_reference.scripted.hooks import Observer
from server_reference.scripted.ops import Pause

__all__ = [
    "ANSWER",
    "END",
    "Case",
    "Seen",
    "broken",
    "case",
    "changed",
    "data",
    "expected",
    "play",
    "request",
    "whole",
]

END = b"0\r\n\r\n"
ANSWER = Answer("Hello big world")
PATHS = {
    "anthropic.messages": "/v1/messages",
    "openai.chat": "/v1/chat/completions",
    "openai.responses": "/v1/responses",
}


@dataclass(frozen=True)
class Seen:
    """A reply in its parts.

    Attributes:
        chunks: Payload of each whole chunk; a body without chunks is one.
        tail: What follows the last whole chunk.
        end: `open`, `fin` or `rst`.
        waited: Seconds that passed on the server's clock.
    """

    head: bytes
    chunks: list[bytes]
    tail: bytes
    end: str
    waited: float


@dataclass(frozen=True)
class Case:
    """A preset, and what is different under it from the whole reply."""

    name: str
    parameters: Mapping[str, Any]
    api: str = "openai.chat"
    stream: bool = True
    usage: bool = False
    head: Callable[[bytes], bytes] = lambda head: head
    chunks: Callable[[list[bytes]], list[bytes]] = lambda chunks: chunks
    tail: bytes | Callable[[list[bytes]], bytes] = END
    end: str = "open"
    waited: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


_FIELDS = frozenset(Case.__dataclass_fields__) - {"name", "parameters"}


def case(name: str, **given: Any) -> Case:
    """A case; what is no field of it is a parameter of the fault."""
    own = {key: value for key, value in given.items() if key in _FIELDS}
    own["tail"] = own.get("tail", END if own.get("stream", True) else b"")
    return Case(name, {k: v for k, v in given.items() if k not in _FIELDS}, **own)


def expected(one: Case) -> Seen:
    seen = whole(one.api, one.stream, one.usage)
    tail = one.tail if isinstance(one.tail, bytes) else one.tail(seen.chunks)
    chunks = one.chunks(list(seen.chunks))
    return Seen(one.head(seen.head), chunks, tail, one.end, round(one.waited, 3))


@cache
def whole(api: str, stream: bool = True, usage: bool = False) -> Seen:
    """The reply that no fault breaks, event by event."""
    return play(ANSWER | _Nothing(), api, stream=stream, usage=usage)


def play(
    then: Any, api: str = "openai.chat", *, stream: bool = True, usage: bool = False, headers=None
) -> Seen:
    """What comes for one request, until nothing more can come."""
    clock, watch = ManualClock(auto_advance=True), _Watch()
    start = clock.now()
    with (
        server_reference.scripted(then, clock=clock, observers=[watch]) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock,
    ):
        sock.sendall(request(api, stream=stream, usage=usage, headers=headers))
        raw, end = _read(sock, watch.settled)
        for _ in range(3):  # what the server's loop still has to do
            turned = threading.Event()
            server.call_soon(turned.set)
            assert turned.wait(10)
        if end == "open":
            more, end = _read(sock, turned)
            raw += more
        return Seen(*_parts(raw), end, round(clock.now() - start, 3))


def broken(one: Case) -> Seen:
    """What comes under the fault."""
    then = ANSWER | fault(one.name, **one.parameters)
    return play(then, one.api, stream=one.stream, usage=one.usage, headers=one.headers)


def request(api="openai.chat", *, stream=True, usage=False, headers=None) -> bytes:
    """The bytes of a request."""
    fields: dict[str, Any] = {"model": "tiny", "max_tokens": 9, "stream": stream}
    if usage:
        fields["stream_options"] = {"include_usage": True}
    turns = [{"role": "user", "content": "hi"}]
    fields |= {"input": turns} if api == "openai.responses" else {"messages": turns}
    body = json.dumps(fields).encode()
    lines = {"host": "x", "content-length": str(len(body)), **(headers or {})}
    head = f"POST {PATHS[api]} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    return head.encode() + b"\r\n" + body


def data(fields: Any, name: str | None = None) -> bytes:
    """An event as it is written."""
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def changed(chunk: bytes, change: Callable[[Any], Any]) -> bytes:
    """An event, or a whole reply, with its object changed in place or by another."""
    head, mark, text = chunk.partition(b"data: ")
    fields = json.loads(text or head)
    fields = change(fields) or fields
    encoded = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    return head + mark + encoded + b"\n\n" if mark else encoded


class _Nothing:
    def apply(self, script, received):
        return script


class _Watch(Observer):
    """Knows when a reply has come to its end, or to a standstill."""

    def __init__(self) -> None:
        self.settled = threading.Event()

    def wrote(self, received, op, num_bytes):
        if isinstance(op, Pause):
            self.settled.set()

    def ended(self, received, how):
        self.settled.set()


def _read(sock: socket.socket, settled: threading.Event) -> tuple[bytes, str]:
    raw = b""
    try:
        while True:
            is_last = settled.is_set()
            if select.select([sock], [], [], 0.0 if is_last else 0.005)[0]:
                if not (more := sock.recv(2**20)):
                    return raw, "fin"
                raw += more
            elif is_last:
                return raw, "open"
    except ConnectionResetError:
        return raw, "rst"


def _parts(raw: bytes) -> tuple[bytes, list[bytes], bytes]:
    head, _, rest = raw.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head:
        return head, [rest] if rest else [], b""
    chunks: list[bytes] = []
    while (sized := rest.partition(b"\r\n"))[1] and not rest.startswith(b"0\r\n"):
        try:
            size = int(sized[0], 16)
        except ValueError:
            break
        if len(sized[2]) < size + 2:
            break
        chunks.append(sized[2][:size])
        rest = sized[2][size + 2 :]
    return head, chunks, rest
