"""A conversation to continue, as every wire format means it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChatRequest", "Message"]

Message = dict[str, str]
"""`role` (system, user or assistant) and `content`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request, checked, in no API's words.

    Args:
        messages: At least one.
        prefill: Text that the answer starts with already; it is not repeated.
        max_tokens: New tokens at most; `None` is as many as the context allows.
        temperature: 0 takes the likeliest token.
        include_usage: Whether a Chat Completions stream ends with a chunk of token counts.
        instructions: What a Responses reply repeats; it is the first of `messages` too.
        messages_field: The request's field that holds the messages, for complaints about them.
    """

    model: str
    messages: list[Message]
    prefill: str = ""
    max_tokens: int | None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    instructions: str | None = None
    messages_field: str = "messages"
