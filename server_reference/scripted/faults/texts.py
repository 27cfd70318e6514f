"""Faults in characters that a reply holds, and in secrets that it sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ..ops import Script
from ..request import Received
from .formats import prefix_text
from .pieces import Reply
from .presets import Break, preset

__all__ = ["invalid_utf8", "lone_surrogate", "set_cookie_secret"]

_MARK = "\ue000"  # a character of nobody's, in whose place the escape goes
_ESCAPES = {"high": b"\\ud83d", "low": b"\\ude00"}


@preset(
    "UNI",
    "aider#3693, #3460; opencode#13988; kimi-cli#994; requests#6008",
    right="Replace or refuse it before it is sent back in the next turn; naming where it stands.",
)
def lone_surrogate(half: Literal["high", "low"] = "high") -> Break:
    """The answer's text begins with the escape of half a pair of surrogates.

    Args:
        half: Which one.
    """

    def halved(reply: Reply, received: Received) -> Script:
        mark = _MARK.encode()
        pieces = prefix_text(reply.pieces, _MARK)
        return reply.script(
            replace(piece, data=piece.data.replace(mark, _ESCAPES[half])) for piece in pieces
        )

    return halved


@preset(
    "UNI",
    "astrid#171; pydantic-ai PR#6483; llama.cpp PR#28926",
    right="Replace the bytes by U+FFFD; the other events are not lost.",
)
def invalid_utf8() -> Break:
    """The answer's text begins with bytes that are no UTF-8."""

    def broken(reply: Reply, received: Received) -> Script:
        mark = _MARK.encode()
        pieces = prefix_text(reply.pieces, _MARK)
        return reply.script(
            replace(piece, data=piece.data.replace(mark, b"\xc3\x28\xff")) for piece in pieces
        )

    return broken


@preset(
    "SEC",
    "openai-python#1196, #1082; Open-Assistant#3749; openai-python 3.57, run",
    right="Logs, errors and traces show that a cookie came, never its value.",
)
def set_cookie_secret(value: str = "session=secret-of-the-session") -> Break:
    """The reply sets a cookie that holds a secret.

    Args:
        value: The cookie.
    """

    def with_cookie(reply: Reply, received: Received) -> Script:
        fields = (*reply.head.fields, ("set-cookie", f"{value}; HttpOnly; Secure"))
        return reply.script(head=replace(reply.head, fields=fields))

    return with_cookie
