"""Request bodies: strict JSON, with what came from a provider going back byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .value import verbatim

__all__ = ["encode", "is_alike"]

_ENCODER = msgspec.json.Encoder(enc_hook=verbatim)


def encode(payload: Any) -> bytes:
    """The JSON of `payload`; a message or block of an earlier reply is written as it came.

    Raises:
        TypeError: It holds something that JSON cannot say.
        ValueError: A text holds half of a surrogate pair, which UTF-8 cannot say.
    """
    try:
        return _ENCODER.encode(payload)
    except UnicodeEncodeError:
        raise ValueError(
            f"not sent: {_surrogate_path(payload, '')} holds half of a surrogate pair, which is "
            'no character; text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") '
            "mends it"
        ) from None


def is_alike(payload: Any, body: bytes) -> bool:
    """Whether `encode(payload)` says all that `body` says, in the same order, and no more.

    It does not where a number is one that we cannot hold, a key stands twice, or a text holds
    half of a surrogate pair; nor where `payload` was changed since `body` was made of it.
    """
    try:
        ours = encode(payload)
        return ours == body or _read_exactly(ours) == _read_exactly(body)
    except (TypeError, ValueError, RecursionError):
        return False


def _read_exactly(body: bytes) -> Any:
    """What JSON says, with the order of keys, and integers told from floats.

    Raises:
        ValueError: It is no JSON, or something of it would be lost.
    """
    import json  # for bodies that others have written in a way of their own

    return json.loads(body, parse_float=_exact, parse_constant=_refuse, object_pairs_hook=_ordered)


def _exact(number: str) -> tuple[float, None]:
    from decimal import Decimal

    value = float(number)
    if Decimal(number) != Decimal(repr(value)):
        raise ValueError("a number that is rounded when it is read")
    return value, None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _ordered(pairs: list[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")
    return tuple(pairs)


def _surrogate_path(value: Any, path: str) -> str | None:
    """Where the first text stands that UTF-8 cannot say, such as `messages[0].content`."""
    match value:
        case str():
            return path if any("\ud800" <= character <= "\udfff" for character in value) else None
        case Mapping():
            parts = [(f"{path}.{name}".lstrip("."), part) for name, part in value.items()]
        case list() | tuple():
            parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
        case _:
            return None
    found = (_surrogate_path(part, name) for name, part in parts)
    return next((name for name in found if name is not None), None)
