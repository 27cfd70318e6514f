"""Where two texts first differ, and in what way; linear, whatever their length."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from .patterns import Pattern, pattern_of

__all__ = ["TextDifference", "TextKind", "excerpt", "shared_length", "text_difference"]

TextKind: TypeAlias = Literal["whitespace", "truncation", "edit"]

_CUT = re.compile(
    r"\s*(?:\.\.\.|…|[\[<(][^\])>]{0,40}(?:truncat|omitted|cut off)).{0,60}", re.DOTALL
)

_ASCII_SPACES = b" \t\n\r\v\f\x1c\x1d\x1e\x1f"
_OTHER_SPACES = tuple(
    chr(code).encode()
    for code in (0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
)


class TextDifference(NamedTuple):
    """How a text became another.

    Attributes:
        offset: Characters that both begin with.
        before_len: Characters that were there from `offset` to what both end with.
        after_len: Characters that are there now.
    """

    kind: TextKind
    offset: int
    before_len: int
    after_len: int
    pattern: Pattern | None


def text_difference(before: str, after: str) -> TextDifference:
    """The difference of two texts that are not the same."""
    offset = shared_length(before, after)
    room = min(len(before), len(after)) - offset
    tail = _shared_tail(before, after, room)
    old, new = len(before) - offset - tail, len(after) - offset - tail
    kind: TextKind = "edit"
    pattern = None
    if _is_whitespace(before, after, offset, tail):
        kind = "whitespace"
    elif tail == 0 and _is_cut(before, after, offset):
        kind = "truncation"
    else:
        pattern = pattern_of(before, after, offset)
    return TextDifference(kind, offset, old, new, pattern)


def shared_length(before: str, after: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(before), len(after))
    while low < high:  # the halves add up to twice the text
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shared_tail(before: str, after: str, room: int) -> int:
    low, high = 0, room
    end, other = len(before), len(after)
    while low < high:
        middle = (low + high + 1) // 2
        if before[end - middle : end - low] == after[other - middle : other - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_whitespace(before: str, after: str, offset: int, tail: int) -> bool:
    """Whether the texts are the same without any whitespace."""
    old, new = before[offset : len(before) - tail], after[offset : len(after) - tail]
    if not (old[:1].isspace() or new[:1].isspace() or not old or not new):
        return False  # the first difference is none of whitespace: no need to look on
    if (old.lstrip()[:1] or "\0") != (new.lstrip()[:1] or "\0"):
        return False
    return _bare(old) == _bare(new)


def _bare(text: str) -> bytes:
    """A text without its whitespace."""
    data = text.encode("utf-8", "surrogatepass").translate(None, _ASCII_SPACES)
    if text.isascii():
        return data
    for space in _OTHER_SPACES:
        data = data.replace(space, b"")
    return data


def _is_cut(before: str, after: str, offset: int) -> bool:
    """Whether `after` stops where `before` goes on, a few words about that aside."""
    if offset == len(after):
        return True
    rest = after[offset:]
    shorter = len(after) < len(before)
    return shorter and len(rest) <= 120 and re.fullmatch(_CUT, rest) is not None


def excerpt(text: str, offset: int, length: int = 40) -> str:
    """So many characters around `offset`."""
    start = max(0, offset - length // 4)
    return text[start : start + length]
