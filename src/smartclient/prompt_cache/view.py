"""What placement looks at: a request beside those that were sent before, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from .blocks import Tier, Walk
from .gaps import Gaps

if TYPE_CHECKING:
    from .book import Entry, Spot

__all__ = ["View", "shape_of"]

_SEVERAL_TURNS, _ONE_TURN = 0.6, 0.25


class View(Struct, frozen=True, kw_only=True):
    """One request's place among earlier ones.

    Attributes:
        shared: Last block that an earlier request began with too; -1 for none.
        since: Seconds since that was sent; `None` is unknown.
        is_extension: The request has all of the one before in its lane.
        weights: Bytes of text up to each block.
        ratio: Tokens that a byte is.
        spread: Factor by which the estimate may be off either way.
        alive: By block, the prefixes that the provider should hold.
        boundaries: By block, what is known of a prefix that many conversations may share, and
            the seconds since it was last sent.
        stays: Chance that tools, or a system prompt, that are new are sent again.
        gaps: Between requests of this lane.
        book_gaps: Between requests of any lane.
        growth: Chance that the lane has a next request, which has all of this one.
        next_turn: Chance that it has one.
        siblings: Other lanes that began where this one did.
        turns: Requests of the lane before this one, the first not counted.
        trust: Share of what we expected to be read that was.
        least: Tokens of the shortest prefix that is kept, as learned; 0 for nothing learned.
    """

    weights: Sequence[int]
    ratio: float
    gaps: Gaps
    book_gaps: Gaps
    shared: int = -1
    since: float | None = None
    is_extension: bool = False
    spread: float = 2.0
    alive: Mapping[int, Entry] = {}
    boundaries: Mapping[int, tuple[Spot, float | None]] = {}
    stays: Mapping[Tier, float] = {}
    growth: float = 0.0
    next_turn: float = 0.0
    siblings: int = 0
    turns: int = 0
    trust: float = 1.0
    least: int = 0

    def tokens(self, block: int) -> float:
        """Up to a block, estimated."""
        return self.weights[block] * self.ratio

    def goes_on(self, seconds: float) -> float:
        """Chance that the lane's next request comes within `seconds`."""
        prior = self.book_gaps.within(seconds, prior=_SOON)
        return self.gaps.within(seconds, prior=prior)


_SOON = 0.75  # that the next turn of a conversation comes in time, where nothing is known


def shape_of(walk: Walk) -> float:
    """Chance that a first request is followed by one that begins with it, by its shape."""
    blocks = walk.blocks
    first = next((block for block in blocks if block.tier == "messages"), None)
    has_turns = first is not None and first.path[:2] != blocks[-1].path[:2]
    return _SEVERAL_TURNS if has_turns or blocks[0].tier == "tools" else _ONE_TURN
