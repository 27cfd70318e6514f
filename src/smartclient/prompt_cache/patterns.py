"""What a changed piece of text looks like: a time, an id, a counter; or nothing known.

A pattern is named only where both texts match it at the difference and go on alike after
it, so that an edited sentence which happens to begin with a number is no counter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

__all__ = ["PATTERNS", "WORDS", "Pattern", "pattern_of"]

Pattern: TypeAlias = Literal[
    "iso_datetime",
    "datetime",
    "uuid",
    "unix_timestamp",
    "request_id",
    "hex",
    "path",
    "username",
    "random_token",
    "counter",
]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)

WORDS: dict[Pattern, str] = {
    "iso_datetime": "a date or time",
    "datetime": "a date or time",
    "uuid": "a UUID",
    "unix_timestamp": "a Unix timestamp",
    "request_id": "an id",
    "hex": "a hexadecimal id",
    "path": "a path",
    "username": "a user's name",
    "random_token": "a random token",
    "counter": "a number",
}

_BACK, _AHEAD = 96, 160  # characters around a difference that are looked at
_ALIKE = 4  # characters after both matches that must agree

_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?:Z\b|UTC\b|GMT\b|[+-]\d{2}:?\d{2}\b)"
_ISO = rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]\d{{2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?(?:\s?{_ZONE})?)?"
_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b"
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b"
)
_NUMERIC = r"\b\d{1,4}[./]\d{1,2}[./]\d{2,4}\b"
_TELLING = rf"{_CLOCK}|\b{_DAY}|\b{_MONTH}|{_NUMERIC}"
_PIECE = (
    rf"(?:{_CLOCK}|\b{_DAY}|\b{_MONTH}|{_NUMERIC}"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{4}}\b|{_ZONE})"
)

_FORMS: dict[Pattern, str] = {
    "iso_datetime": rf"(?<!\d){_ISO}(?!\d)",
    "datetime": rf"{_PIECE}(?:(?:[\s,.]|\bat\b|\bof\b){{1,4}}{_PIECE}){{0,7}}",
    "uuid": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "unix_timestamp": r"(?<![\w.])1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9}|\.\d{1,9})?(?![\w])",
    "request_id": r"\b[A-Za-z]{2,12}[_-](?=\w*\d)[A-Za-z0-9]{6,64}\b",
    "hex": r"\b(?:0x)?(?=[0-9a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{6,64}\b",
    "path": r"(?<![\w/])(?:~|[A-Za-z]:|\.{1,2})?(?:[/\\][\w.@+\-]+){2,}[/\\]?",
    "username": (
        r"\b[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)*"
        r"|(?<=user: )[\w.\-]+|(?<=user=)[\w.\-]+|(?<=username: )[\w.\-]+|(?<=username=)[\w.\-]+"
    ),
    "random_token": r"\b(?=\w*\d)(?=\w*[A-Za-z])[\w\-]{8,128}\b",
    "counter": r"(?<![\w.])\d+(?:[,._]\d+)*(?!\w)",
}


def pattern_of(before: str, after: str, offset: int) -> Pattern | None:
    """What both texts have where they first differ; `None` for nothing that is known.

    Args:
        offset: Characters that both begin with in common.
    """
    start = max(0, offset - _BACK)
    old, new = before[start : offset + _AHEAD], after[start : offset + _AHEAD]
    for name, source in _FORMS.items():
        form = re.compile(source)  # kept by `re`; few programs ever need one
        for first in _around(form, old, offset - start):
            for second in _around(form, new, offset - start):
                if first.start() == second.start() and _agree(old, first, new, second):
                    if name == "datetime" and not (_is_telling(first) and _is_telling(second)):
                        continue
                    return name
    return None


def _around(form: re.Pattern[str], text: str, place: int) -> Iterator[re.Match[str]]:
    """Matches that hold the character at `place`, or end before it."""
    for found in form.finditer(text):
        if found.start() > place:
            return
        if place <= found.end():
            yield found


def _agree(old: str, first: re.Match[str], new: str, second: re.Match[str]) -> bool:
    """Different matches, with the same text after them as far as it is looked at."""
    rest, other = old[first.end() :][:_ALIKE], new[second.end() :][:_ALIKE]
    return rest == other and first[0] != second[0]


def _is_telling(found: re.Match[str]) -> bool:
    return re.search(_TELLING, found[0]) is not None
