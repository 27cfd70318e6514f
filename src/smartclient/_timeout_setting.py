"""A `Timeout` from what a caller gives, checked where it is given."""

from __future__ import annotations

from typing import Any

import msgspec

from ._call import Timeout
from ._clock import checked_seconds

__all__ = ["timeout_of"]


def timeout_of(value: Any, default: Timeout) -> Timeout:
    """A `Timeout` from what a caller gives: one, a number of seconds, or `None` for no limit.

    Raises:
        TypeError: Neither of these.
        ValueError: A number that is not above 0.
    """
    if isinstance(value, Timeout):
        for name in Timeout.__struct_fields__:
            _check_seconds(f"timeout.{name}", getattr(value, name))
        return value
    if value is None:
        return msgspec.structs.replace(default, read=None, first_event=None, idle=None)
    _check_seconds("timeout", value)
    shorter = {
        name: min(value, limit)
        for name in ("connect", "pool", "write")
        if (limit := getattr(default, name)) is not None
    }
    silence = float(value)
    return msgspec.structs.replace(
        default, read=silence, first_event=silence, idle=silence, **shorter
    )


def _check_seconds(name: str, value: Any) -> None:
    if value is not None:
        checked_seconds(name, value, kind="seconds or a Timeout", hint="use None for no limit")
