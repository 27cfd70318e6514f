"""A budget, as a user states it."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

__all__ = ["Budget"]


class Budget(Struct, frozen=True, kw_only=True):
    """How much calls may use.

    Attributes:
        name: Under which the store keeps it: budgets of one name share their accounts.
        dollars: Most dollars in a window.
        tokens: Most tokens in a window, of input and output together.
        requests: Most calls in a window.
        per: The window: `minute`, `hour`, `day` or `month` in UTC, or seconds; `None` is one
            window for ever.
        per_tag: Each tag has accounts of its own.
    """

    name: str = "budget"
    dollars: Decimal | None = None
    tokens: int | None = None
    requests: int | None = None
    per: str | float | None = None
    per_tag: bool = False
