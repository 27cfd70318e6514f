"""Where a conversation that outgrows its window is cut, so that the cache loses least.

A cut loses the cache of all that stands behind it, so cuts are few and deep: only when a
request would not fit, and then down to a share of the window. They are found by going
through the conversation as it grew, so they depend on its messages alone: a turn later they
are the same, and each request begins with the one before it until the next cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from .conversation import Group

__all__ = ["Bounds", "Cut", "cuts"]


class Bounds(Struct, frozen=True, kw_only=True):
    """What a conversation must fit into.

    Attributes:
        allowed: Input tokens of a request.
        target: To which share of what may be cut at all a cut goes down.
        fixed: Tokens of what always stays.
        summary: Tokens that are held for a summary once something was cut.
        pinned: Groups at the beginning that always stay.
    """

    allowed: int
    target: float
    fixed: int
    summary: int = 0
    pinned: int = 0


class Cut(Struct, frozen=True):
    """One cut.

    Attributes:
        at: The group at whose end the conversation did not fit.
        dropped: The groups that went.
    """

    at: int
    dropped: list[int]


def cuts(groups: Sequence[Group], tokens: Sequence[int], bounds: Bounds) -> list[Cut]:
    """The cuts of a conversation that grew group by group.

    What stays may still be too much: the last turn of the user and the last step never go.
    """
    found: list[Cut] = []
    fixed = bounds.fixed + sum(tokens[: bounds.pinned])
    goal = fixed + int(bounds.target * max(0, bounds.allowed - fixed))
    total = bounds.fixed
    kept: list[int] = []
    turn = asked = -1
    for number, group in enumerate(groups):
        total += tokens[number]
        turn = number if group.is_turn else turn
        asked = number if group.asks else asked
        if number < bounds.pinned:
            continue
        kept.append(number)
        if not group.is_sent and number + 1 < len(groups):
            continue
        if total + (bounds.summary if found else 0) <= bounds.allowed:
            continue
        room = (bounds.allowed - bounds.summary, goal - bounds.summary)
        dropped = _whole_turns(groups, tokens, kept, total, turn, room)
        left = total - sum(tokens[one] for one in dropped)
        if left > room[0]:
            dropped += _steps(tokens, kept[len(dropped) :], left, {turn, asked, number}, room[1])
        if dropped:
            gone = set(dropped)
            kept = [one for one in kept if one not in gone]
            total -= sum(tokens[one] for one in dropped)
            found.append(Cut(number, dropped))
    return found


def _whole_turns(
    groups: Sequence[Group],
    tokens: Sequence[int],
    kept: Sequence[int],
    total: int,
    turn: int,
    room: tuple[int, int],
) -> list[int]:
    """What stands before the first turn from which on the rest is short enough, or the last."""
    best = 0
    for place, number in enumerate(kept):
        if number > turn:
            break
        if groups[number].is_turn and place:
            best = place
            if total <= room[1]:
                break
        total -= tokens[number]
    return list(kept[:best])


def _steps(
    tokens: Sequence[int], kept: Sequence[int], total: int, needed: set[int], goal: int
) -> list[int]:
    """The oldest steps of the last turn, until the rest is short enough."""
    dropped = []
    for number in kept:
        if total <= goal:
            break
        if number not in needed:
            dropped.append(number)
            total -= tokens[number]
    return dropped
