"""Request bodies: strict JSON, with what came from a provider going back byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .value import verbatim

__all__ = ["encode"]

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
