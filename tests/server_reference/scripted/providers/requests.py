"""Requests to a provider in their ordinary form; a test states only what matters to it."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from server_reference.scripted.clock import ManualClock
from server_reference.scripted.providers.prompt_cache import PromptCache, Reading
from server_reference.scripted.request import Received

__all__ = ["Asking", "a_request", "chat", "marked", "messages", "responses", "text", "user"]

_NUMBERS = count(1)


def text(num_tokens: int, seed: str = "a") -> str:
    """A text of so many tokens, four letters each; another `seed` differs from its start."""
    return (seed * 4)[:4] * num_tokens


def marked(block: dict[str, Any] | str, ttl: str | None = None) -> dict[str, Any]:
    """A block with Anthropic's mark; a string is a block of text."""
    block = {"type": "text", "text": block} if isinstance(block, str) else block
    control = {"type": "ephemeral"} | ({} if ttl is None else {"ttl": ttl})
    return {**block, "cache_control": control}


def user(content: Any) -> dict[str, Any]:
    """A message of the user; a block stands for a list of one."""
    return {"role": "user", "content": [content] if isinstance(content, dict) else content}


def a_request(
    path: str,
    body: Any,
    *,
    key: str = "sk-1",
    headers: tuple[tuple[str, str], ...] = (),
    at: float = 0.0,
) -> Received:
    return Received(
        "POST",
        path,
        headers=(("x-api-key", key), *headers),
        body=json.dumps(body).encode(),
        number=next(_NUMBERS),
        received_at=at,
    )


def messages(*turns: Any, at: float = 0.0, key: str = "sk-1", beta: str = "", **fields: Any):
    """A Messages request; a string is a user's message."""
    headers = (("anthropic-beta", beta),) if beta else ()
    sent = [user(turn) if isinstance(turn, str) else turn for turn in turns]
    body = {"model": "claude-opus-5-5", "max_tokens": 100, "messages": sent, **fields}
    return a_request("/v1/messages", body, key=key, headers=headers, at=at)


def chat(*turns: Any, at: float = 0.0, key: str = "sk-1", **fields: Any) -> Received:
    """A Chat request; a string is a user's message."""
    sent = [user(turn) if isinstance(turn, str) else turn for turn in turns]
    body = {"model": "gpt-5.6", "messages": sent, **fields}
    return a_request("/v1/chat/completions", body, key=key, at=at)


def responses(*items: Any, at: float = 0.0, key: str = "sk-1", **fields: Any) -> Received:
    """A Responses request; a string is a user's message."""
    sent = [user(item) if isinstance(item, str) else item for item in items]
    body = {"model": "gpt-5.6", "input": sent, **fields}
    return a_request("/v1/responses", body, key=key, at=at)


class Asking:
    """A cache and its clock; requests come when the clock says."""

    def __init__(self, rules: Any = None) -> None:
        self.clock = ManualClock(0.0)
        self.cache = PromptCache(self.clock, rules)

    def begin(self, received: Received) -> Reading:
        """The reading of a request whose reply has begun."""
        reading = self.read(received)
        reading.begin()
        return reading

    def read(self, received: Received) -> Reading:
        """The reading of a request whose reply has not begun."""
        object.__setattr__(received, "received_at", self.clock.now())
        reading = self.cache.read(received)
        assert isinstance(reading, Reading), reading
        return reading

    def refuse(self, received: Received) -> str:
        """The message of the 400 that a request gets."""
        refused = self.cache.read(received)
        assert not isinstance(refused, Reading), refused
        assert refused.status == 400
        return str(refused.body["error"]["message"])
