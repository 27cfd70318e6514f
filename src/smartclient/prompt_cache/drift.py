"""Where a prompt first differs from the one before it, in what way, and what that costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from ..catalog.facts import ModelFacts
from ..wire import Served, Usage
from .advice import advice
from .blocks import Path, Tier, Walk, path_text
from .difference import DriftKind
from .divergence import Divergence, divergence
from .lost import Lost, lost
from .patterns import WORDS, Pattern
from .savings import STANDARD
from .texts import excerpt

__all__ = ["Drift", "DriftKind", "Move", "drift"]

_MAX_KEY = 60  # characters of a key that a path shows: a key may be anybody's text


class Move(Struct, frozen=True):
    """A tool, or another element of a list, that stands in another place.

    Attributes:
        name: Of the tool; `None` for what has none.
        before: Its path in the request before, such as `tools[3]`.
        after: Its path now.
    """

    name: str | None
    before: str
    after: str


class Drift(Struct, frozen=True, kw_only=True):
    """The first difference between the prompts of two requests. Unknown is `None`.

    It holds no text of a prompt, unless excerpts were asked for; `str(drift)` is one
    sentence that never does.

    Attributes:
        kind: In what way they differ.
        path: Where, such as `tools[3].input_schema.properties.city`; within a text with the
            offset in characters, such as `system[0].text@6190`.
        steps: The path without the offset, step by step.
        offset: Characters of the text that are the same.
        tier: The part of the prompt: what follows in it and those after it are lost.
        block: Index of the first block of `after` that the cache cannot hold.
        parameter: Name of what changed beside the blocks, such as `tool_choice`.
        parameters: Every such name of that tier.
        pattern: What the changed text looks like, such as `uuid` or `iso_datetime`.
        moved: What changed places, at most ten of them.
        count: Blocks or elements that moved, came or went; 1 otherwise.
        before_len: Length of the changed text before, in characters.
        after_len: Its length now.
        bytes_lost: Bytes of the prompt that could have been read and were not.
        tokens_lost: The same in tokens.
        is_estimate: `tokens_lost` comes from a general ratio, not from this call's usage.
        dollars_lost: What these tokens cost in this call over what reading them costs.
        is_written: They are written to the cache anew, and pay for that.
        advice: What to do, in one clause.
        excerpts: The text around the difference, before and now, where it was asked for.
    """

    kind: DriftKind
    path: str
    steps: Path
    tier: Tier
    block: int
    advice: str
    bytes_lost: int
    offset: int | None = None
    parameter: str | None = None
    parameters: tuple[str, ...] = ()
    pattern: Pattern | None = None
    moved: tuple[Move, ...] = ()
    count: int = 1
    before_len: int | None = None
    after_len: int | None = None
    tokens_lost: int | None = None
    is_estimate: bool = True
    dollars_lost: Decimal | None = None
    is_written: bool = False
    excerpts: tuple[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; dollars as a decimal string."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def __str__(self) -> str:
        return "; ".join([_what(self), *_cost(self), self.advice])


def _check_walks(**given: Any) -> None:
    for name, one in given.items():
        if not isinstance(one, Walk):
            raise TypeError(
                f"{name} must be a Walk, not {type(one).__name__}; prompt_cache.walk(payload, "
                "endpoint=) makes one, and None of a format that it does not know"
            )


def drift(
    before: Walk,
    after: Walk,
    *,
    entry: int | None = None,
    usage: Usage | None = None,
    tokens_per_byte: float = 0.25,
    ttl: str | None = None,
    facts: ModelFacts | None = None,
    served: Served = STANDARD,
    excerpts: bool = False,
) -> Drift | None:
    """The first difference between the prompts of two requests, marks left out.

    `None` where `after` only continues `before`, is where `before` began, or is the same:
    without a byte that differs there is no drift.

    Args:
        before: The request that the cache should hold.
        after: The request that should have read it.
        entry: Index into `before.blocks` of the last block that the cache held: what is
            behind it cannot be lost. `None` for all of them.
        usage: Tokens of the reply to `after`: tokens are then counted in its measure, and
            dollars by how it was billed.
        tokens_per_byte: The measure where `usage` is not known.
        ttl: Where `usage` is not known, the time to live with which `after` writes to the
            cache; `None` takes the caller's own mark, if there is one.
        facts: The model's, for dollars.
        served: How `after` was served.
        excerpts: Keep up to 40 characters of each side: text of a prompt.

    Raises:
        TypeError: `before` or `after` is no `Walk`.
    """
    _check_walks(before=before, after=after)
    if not 0 < tokens_per_byte < float("inf"):
        raise ValueError(f"tokens_per_byte must be above 0, not {tokens_per_byte}; 0.25 is usual")
    found = divergence(before, after, entry=entry)
    if found is None:
        return None
    cost = lost(
        found,
        after.blocks[-1].end if after.blocks else 0,
        usage=usage,
        tokens_per_byte=tokens_per_byte,
        ttl=ttl or _own_ttl(after, found.block),
        facts=facts,
        served=served,
    )
    return _told(found, cost, excerpts=excerpts)


def _own_ttl(walk: Walk, block: int) -> str | None:
    """Time to live of the first mark of the caller's that what follows `block` is written at."""
    marks = (one.mark for one in walk.blocks[block:] if one.mark is not None)
    return next(marks, walk.whole_mark)


def _told(found: Divergence, cost: Lost, *, excerpts: bool) -> Drift:
    difference = found.difference
    parameter = found.parameters[0] if found.parameters else None
    clause = advice(
        difference.kind,
        found.tier,
        pattern=difference.pattern,
        parameter=parameter,
        is_inside=found.is_inside,
    )
    paths = zip(difference.moved, found.names or [None] * len(difference.moved), strict=True)
    taken = None
    if excerpts and difference.texts is not None and difference.offset is not None:
        was, now = difference.texts
        taken = (excerpt(was, difference.offset), excerpt(now, difference.offset))
    place = "" if difference.offset is None else f"@{difference.offset}"
    return Drift(
        kind=difference.kind,
        path=_shown(difference.steps) + place,
        steps=difference.steps,
        offset=difference.offset,
        tier=found.tier,
        block=found.block,
        advice=clause,
        parameter=parameter,
        parameters=found.parameters,
        pattern=difference.pattern,
        moved=tuple(Move(name, _shown(old), _shown(new)) for (old, new), name in paths),
        count=difference.count,
        before_len=difference.before_len,
        after_len=difference.after_len,
        bytes_lost=cost.bytes,
        tokens_lost=cost.tokens,
        is_estimate=cost.is_estimate,
        dollars_lost=cost.dollars,
        is_written=cost.is_written,
        excerpts=taken,
    )


def _shown(steps: Path) -> str:
    """A path on one line, whatever its keys are."""
    return path_text(tuple(_key(one) if isinstance(one, str) else one for one in steps))


def _key(key: str) -> str:
    shown = key if key.isprintable() else ascii(key)[1:-1]
    return shown if len(shown) <= _MAX_KEY else f"{shown[: _MAX_KEY - 1]}…"


def _what(drift: Drift) -> str:
    match drift.kind:
        case "parameter":
            others = len(drift.parameters) - 1
            return f"{drift.path} changed" + (f", and {others} more" if others else "")
        case "reorder":
            return _moves(drift)
        case "added" | "removed":
            verb = "came in" if drift.kind == "added" else "is gone"
            more = f" with {drift.count - 1:,} more" if drift.count > 1 else ""
            return f"{drift.path} {verb}{more}"
        case "key_order":
            return f"the keys of {drift.path} are in another order"
        case "whitespace":
            return f"only whitespace changed at {drift.path}"
        case "truncation":
            gone = (drift.before_len or 0) - (drift.after_len or 0)
            return f"{drift.path} is {gone:,} characters shorter than it was"
        case "type_change":
            return f"{drift.path} is of another type"
        case "edit":
            looks = f": {WORDS[drift.pattern]}" if drift.pattern is not None else ""
            return f"{drift.path} changed{looks}"


def _moves(drift: Drift) -> str:
    first = drift.moved[0]
    more = f", and {drift.count - 1:,} more moved" if drift.count > 1 else ""
    return f"{first.before} moved to {first.after}{more}"


def _cost(drift: Drift) -> list[str]:
    if not drift.tokens_lost:
        return ["nothing that was cached is lost"] if not drift.bytes_lost else []
    about = "about " if drift.is_estimate else ""
    verb = "is" if drift.tokens_lost == 1 else "are"
    noun = "token" if drift.tokens_lost == 1 else "tokens"
    how = "written" if drift.is_written else "computed"
    price = "" if drift.dollars_lost is None else f", {_dollars(drift.dollars_lost)} per call"
    return [f"{about}{drift.tokens_lost:,} {noun} {verb} {how} anew{price}"]


def _dollars(amount: Decimal) -> str:
    """With three decimals, or as many as two digits need."""
    if amount == 0:
        return "$0"
    places = max(3, 1 - amount.adjusted())
    return f"{'-' if amount < 0 else ''}${abs(amount):.{places}f}"
