"""Log-probabilities of tokens in OpenAI's words.

Source: OpenAI API reference, "Chat completions" (`logprobs`) and "Responses" (`output_text`).
"""

from __future__ import annotations

from .events import Logprob

__all__ = ["IMPOSSIBLE", "with_top"]

IMPOSSIBLE = -9999.0
"""The API's word for a logarithm of nothing, which JSON cannot write."""


def with_top(one: Logprob, *, has_bytes: bool = True) -> dict[str, object]:
    """A token and the likeliest in its place."""
    top = [_token(other, has_bytes=has_bytes) for other in one.top]
    return _token(one, has_bytes=has_bytes) | {"top_logprobs": top}


def _token(one: Logprob, *, has_bytes: bool) -> dict[str, object]:
    told: dict[str, object] = {"token": one.bytes.decode("utf-8", "replace")}
    if has_bytes:
        told["bytes"] = list(one.bytes)
    return told | {"logprob": max(one.logprob, IMPOSSIBLE)}
