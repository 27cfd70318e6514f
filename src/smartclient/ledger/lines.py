"""Entries as lines of JSON: whole ones, broken ones, and what can be trusted of either."""

from __future__ import annotations

import msgspec

from .entry import Entry

__all__ = ["checked", "encoded", "entry_in", "is_entry"]

_BEGINNING = b'{"at":'
_NEXT = b"\n" + _BEGINNING
_ENCODER = msgspec.json.Encoder(decimal_format="string")
_DECODER = msgspec.json.Decoder(Entry)
_YEAR_10_000 = 253_402_300_800.0
_DIGITS = 40  # before and behind the point: more is no price, and would not add up exactly


def encoded(entry: Entry) -> bytes:
    """One line. It begins in a way that no other place of it can hold."""
    return _ENCODER.encode(entry) + b"\n"


def is_entry(head: bytes) -> bool:
    """Whether what a file begins with is a line of ours, or what is left of one."""
    return head.startswith(_BEGINNING) or _BEGINNING.startswith(head) or _NEXT in head


def entry_in(line: bytes) -> Entry | None:
    """The entry of a line; of one that follows the rest of a broken line, the last."""
    start = line.rfind(_BEGINNING)
    if start < 0:
        return None
    try:
        return checked(_DECODER.decode(line[start:]))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def checked(entry: Entry) -> Entry:
    """`entry`, of which time and money can be added up.

    Raises:
        ValueError: They cannot.
    """
    if not 0.0 <= entry.at < _YEAR_10_000:
        raise ValueError(f"{entry.at} is no time in Unix seconds")
    for amount in filter(None, (entry.cost, entry.at_least, entry.savings)):
        exponent = amount.as_tuple().exponent
        if not isinstance(exponent, int) or exponent < -_DIGITS or amount.adjusted() > _DIGITS:
            raise ValueError(f"{amount} is no amount of dollars")
    return entry
