"""What the prompt cache did over many calls: by lane, by mark, by model, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from ..wire import Usage

__all__ = ["CacheSavings", "MarkUse", "Tally"]


class MarkUse(Struct, frozen=True, kw_only=True):
    """What one mark did in one call.

    Attributes:
        path: Where it stands, such as `system[1]`.
        read: Tokens read up to it.
        written: Tokens written for it.
    """

    path: str
    read: int = 0
    written: int = 0


class Tally(Struct, kw_only=True):
    """Sums over calls.

    Attributes:
        calls: How many.
        input_tokens: All of their input, cached or not.
        read: Input tokens read from the cache.
        written: Input tokens written to it.
        wasted: Of these, tokens that expired, or were written again, before any was read.
        savings: Dollars that the cache saved, of the calls where that is known.
        unpriced: Calls where it is not.
    """

    calls: int = 0
    input_tokens: int = 0
    read: int = 0
    written: int = 0
    wasted: int = 0
    savings: Decimal = Decimal(0)
    unpriced: int = 0


class CacheSavings:
    """Adds up what the prompt cache did, for whoever wants to see it.

    Threads may share one.

    Args:
        max_lanes: Lanes, marks and models that are kept apart, of each; what is beyond, the
            longest unused first, is added up under `(others)`.
    """

    def __init__(self, *, max_lanes: int = 1000) -> None:
        raise NotImplementedError

    def add(
        self,
        usage: Usage | None,
        *,
        model: str,
        now: float,
        lane: str = "",
        savings: Decimal | None = None,
        ttl: float | Mapping[str, float] | None = None,
        marks: Sequence[MarkUse] = (),
    ) -> None:
        """Add one call.

        Args:
            usage: Its tokens; without them only the call is counted.
            model: Who gave it.
            now: When it began, in seconds of any clock that never goes back.
            lane: Whose prompts share prefixes with it.
            savings: What `savings` says of it.
            ttl: Seconds that what it wrote is kept, by the name of the time to live where
                there are several; `None` for ever.
            marks: What each of its marks did.
        """
        raise NotImplementedError

    def to_dict(self, *, now: float | None = None) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; dollars as decimal strings."""
        raise NotImplementedError

    def table(self, *, now: float | None = None) -> str:
        """For people: a line for each model, then for each lane that saved or lost most."""
        raise NotImplementedError
