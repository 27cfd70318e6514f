"""Our own clients over a provider that answers from a list, and what they are asked."""

from __future__ import annotations

from typing import Any

from tests.smartclient.fakes import START, STOP, Provider, World, text

__all__ = [
    "ANSWER",
    "ASKED",
    "BUSY",
    "CHAT_GIVEN",
    "GIVEN",
    "RESPONSE_GIVEN",
    "an_anthropic",
    "an_openai",
]

ASKED = [{"role": "user", "content": "What is the capital of France?"}]
GIVEN = {"model": "tiny", "max_tokens": 8, "messages": ASKED}
CHAT_GIVEN = {"model": "tiny", "messages": ASKED}
RESPONSE_GIVEN = {"model": "tiny", "input": "What is the capital of France?"}
ANSWER = [START, text("Pa"), text("ris"), STOP]
BUSY = b'{"error": {"type": "overloaded_error", "message": "busy"}}'


def an_anthropic(home: World, *answers: Any, **options: Any) -> tuple[Any, Provider]:
    return home.client(*answers, base_url="http://127.0.0.1:1", **options)


def an_openai(home: World, *answers: Any, **options: Any) -> tuple[Any, Provider]:
    options = {"provider": "openai", "base_url": "http://127.0.0.1:1/v1"} | options
    return home.client(*answers, **options)
