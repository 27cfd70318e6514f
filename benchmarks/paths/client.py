"""Paths through a whole client, over loopback to a server that `--gate` has started."""

from __future__ import annotations

import os
from collections.abc import Callable

import smartclient
from benchmarks.replies import messages, whole_text

__all__ = ["streamed_call", "unary_call"]

_MESSAGES = messages(1)
_TEXT = whole_text(1)


def unary_call() -> Callable[[], object]:
    client = _client()

    def step() -> None:
        message = client.messages.create(model="scripted", max_tokens=64, messages=_MESSAGES)
        assert message.content[0].text == _TEXT

    return step


def streamed_call() -> Callable[[], object]:
    client = _client()

    def step() -> None:
        stream = client.messages.create(
            model="burst", max_tokens=100, messages=_MESSAGES, stream=True
        )
        assert sum(1 for _ in stream) == 105

    return step


def _client() -> smartclient.Client:
    return smartclient.Client(base_url=os.environ["BENCHMARKS_UPSTREAM"], api_key="none")
