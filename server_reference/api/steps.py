"""`GET /debug/steps`: what the engines did last, and why; for `smartclient-server explain`."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ..core import StepRecord
from .errors import ApiError, shortened

__all__ = ["DEFAULT_LAST", "describe", "read_last"]

DEFAULT_LAST = 10
_MOST = 1000


def read_last(text: str | None) -> int:
    """How many steps are asked for.

    Raises:
        ApiError: It is no number from 1 to `_MOST`.
    """
    if text is None:
        return DEFAULT_LAST
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= _MOST:
        return int(text)
    said = f"last must be a number from 1 to {_MOST}, not {shortened(text)}"
    raise ApiError("invalid", said, param="last")


def describe(engines: list[list[StepRecord] | None], *, is_admin: bool) -> dict[str, object]:
    """The body: each engine's steps, oldest first, or null for one that does not answer.

    Tenants' names are for the admin.
    """
    shown = [None if one is None else [_step(step, is_admin) for step in one] for one in engines]
    return {"engines": msgspec.to_builtins(shown)}


def _step(step: StepRecord, is_admin: bool) -> StepRecord:
    if is_admin:
        return step
    return replace(
        step,
        scheduled=tuple(replace(one, tenant="") for one in step.scheduled),
        waiting=tuple(replace(one, tenant="") for one in step.waiting),
    )
