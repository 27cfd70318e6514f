"""A call that was not sent, as a reply: SDKs take an unknown exception for a lost connection."""

from __future__ import annotations

from typing import Any

import msgspec

from .._errors import BudgetExceededError, RefusedError

__all__ = ["as_reply"]

_FACTS = ("budget", "tag", "meter", "limit", "spent", "held", "asked", "resets_at")


def as_reply(error: RefusedError, family: Any, request: Any) -> Any:
    """A response of `family` from which both SDKs make their status error.

    Its body is of both their shapes, with the facts of the error in it; it says that trying
    again does not help.
    """
    told: dict[str, Any] = {"type": "refused_error", "code": "refused", "message": str(error)}
    if isinstance(error, BudgetExceededError):
        told |= {"type": "budget_exceeded_error", "code": "budget_exceeded"}
        told |= {name: getattr(error, name) for name in _FACTS}
    return family.Response(
        error.status,
        headers={"content-type": "application/json", "x-should-retry": "false"},
        content=msgspec.json.encode({"type": "error", "error": told}),
        request=request,
    )
