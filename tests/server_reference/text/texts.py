"""Text of our own, turned into token ids and back; a server does neither in one go."""

from __future__ import annotations

from collections.abc import Iterable

from server_reference.text.tokenizer import Tokenizer

__all__ = ["decoded", "encoded"]


def encoded(tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids of `text`, in which `<|im_end|>` and its like are control tokens."""
    ids: list[int] = []
    for piece in tokenizer.control_tokens.split(text):
        if isinstance(piece, int):
            ids.append(piece)
        else:
            ids += tokenizer.encode(piece, follows=bool(ids))
    return ids


def decoded(tokenizer: Tokenizer, token_ids: Iterable[int]) -> str:
    """What the ids stand for; bytes that are no UTF-8 become U+FFFD."""
    return b"".join(map(tokenizer.token_bytes, token_ids)).decode("utf-8", "replace")
