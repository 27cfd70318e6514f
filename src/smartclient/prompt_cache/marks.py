"""Cache marks: which of them a provider takes, and how they are written into a payload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .blocks import Block, Mark, Walk, path_text
from .openai_walk import MARK
from .write import written

__all__ = [
    "TTLS",
    "allows_explicit_only",
    "cache_key",
    "check_own_marks",
    "legal",
    "marked",
]

TTLS: Mapping[str, tuple[str, ...]] = {
    "anthropic.messages": ("5m", "1h"),
    "openai.chat": ("30m",),
    "openai.responses": ("30m", "12h"),
}
"""Times to live that a mark may name, by format."""

_MAX_ANTHROPIC = 4


def legal(walk: Walk, marks: Iterable[Mark], *, explicit_only: bool = False) -> tuple[Mark, ...]:
    """What of `marks`, the most valuable first, can be sent beside the caller's own marks.

    A mark that is refused makes room for a later one: to take a shorter time to live where
    the order forbids the longer one, give both.

    Args:
        explicit_only: As `marked` will be told.

    Returns:
        In the order of their blocks.
    """
    given = _own(walk)
    known = TTLS.get(walk.endpoint, ())
    is_ordered = walk.endpoint == "anthropic.messages"
    if is_ordered and any(ttl not in known for _, ttl in given):
        return ()  # an order with what nobody knows cannot be kept
    room = (4 if explicit_only and not is_ordered else walk.max_marks) - walk.own_marks
    taken = {index for index, _ in given}
    chosen: list[Mark] = []
    for mark in marks:
        if len(chosen) >= room:
            break
        if not _can_stand(walk, mark, known) or mark.block in taken:
            continue
        if is_ordered and not _keeps_order(mark, given):
            continue
        chosen.append(mark)
        given.append((mark.block, mark.ttl))
        taken.add(mark.block)
    return tuple(sorted(chosen, key=lambda mark: mark.block))


def check_own_marks(walk: Walk) -> str | None:
    """Why the provider would refuse the marks that the caller set; `None` where it would not.

    What we do not know, such as a new time to live, is left to the provider.
    """
    if walk.stray_marks:
        return (
            f"{path_text(walk.stray_marks[0])} has defer_loading and cannot be marked: a deferred "
            "tool is no part of the cached prefix; mark a tool before it, or take the mark off"
        )
    own = [block for block in walk.blocks if block.mark is not None] if walk.own_marks else []
    for block in own:
        why = _misplaced(walk, block)
        if why is not None:
            return f"{path_text(block.path)} cannot be marked: {why}; take its mark off"
    if walk.endpoint != "anthropic.messages":
        return None
    return _too_many(walk, own) or _disordered(walk, own)


def marked(
    payload: Mapping[str, Any],
    walk: Walk,
    marks: Sequence[Mark],
    *,
    explicit_only: bool = False,
) -> Mapping[str, Any]:
    """A copy of `payload` with `marks` in it; what does not change is shared with it.

    A text that stands in the place of blocks is short for one block of text. All such texts up
    to the last mark, the caller's included, are written out as blocks, marked or not: a text
    then has the same shape in every request whose mark it stands before, wherever the marks
    move to.

    Args:
        walk: Of this very payload.
        marks: What `legal` left.
        explicit_only: Set OpenAI's mode in which nothing is written but at marks, where
            `allows_explicit_only`; without marks, nothing at all.
    """
    if not marks:
        return _with_mode(payload, walk) if explicit_only else payload
    at: dict[int, dict[str, Any]] = {mark.block: _mark(walk, mark) for mark in marks}
    last = max(*at, *(index for index, _ in _own(walk)), -1)
    name = "cache_control" if walk.endpoint == "anthropic.messages" else MARK
    new = written(payload, walk.blocks[: last + 1], at, name)
    return _with_mode(new, walk) if explicit_only else new


def allows_explicit_only(payload: Mapping[str, Any]) -> bool:
    """Whether OpenAI's own mark at the end of the prompt may be turned off: the caller has
    said nothing about it."""
    options = payload.get("prompt_cache_options")
    return options is None or (isinstance(options, Mapping) and options.get("mode") is None)


def cache_key(walk: Walk, index: int, shard: int = 0) -> str:
    """A `prompt_cache_key` for all requests that begin with the blocks up to `index`.

    Args:
        shard: Which of several keys for the same prefix, from 0: requests with one key go to
            one machine, and more than some 15 a minute overflow to another.
    """
    return f"prefix-{walk.blocks[index].prefix.hex()}-{shard}"


def _mark(walk: Walk, mark: Mark) -> dict[str, Any]:
    kind = {"type": "ephemeral"} if walk.endpoint == "anthropic.messages" else {"mode": "explicit"}
    return kind if mark.ttl == walk.default_ttl else {**kind, "ttl": mark.ttl}


def _with_mode(payload: Mapping[str, Any], walk: Walk) -> Mapping[str, Any]:
    if walk.endpoint == "anthropic.messages" or not allows_explicit_only(payload):
        return payload
    options = payload.get("prompt_cache_options") or {}
    return {**payload, "prompt_cache_options": {**options, "mode": "explicit"}}


def _last_markable(walk: Walk) -> int | None:
    numbers = range(len(walk.blocks) - 1, -1, -1)
    return next((index for index in numbers if walk.blocks[index].is_markable), None)


def _own(walk: Walk) -> list[tuple[int, str]]:
    """The caller's marks: index of a block, time to live."""
    if not walk.own_marks:
        return []
    own: list[tuple[int, str]] = []
    for index, block in enumerate(walk.blocks):
        marks = block.inner_marks if block.mark is None else (block.mark, *block.inner_marks)
        own.extend((index, ttl) for ttl in marks)
    last = _last_markable(walk)
    if walk.whole_mark is not None and last is not None:
        own.append((last, walk.whole_mark))
    return own


def _end(walk: Walk) -> Block | None:
    """The block that a mark on the whole request stands on; `None` where that is not certain."""
    for block in reversed(walk.blocks):
        if block.is_markable or block.path[0] == "tools":  # search tools too, by the caller
            return block
        if _misplaced(walk, block) is None:
            return None
    return None


def _can_stand(walk: Walk, mark: Mark, ttls: Sequence[str]) -> bool:
    is_there = 0 <= mark.block < len(walk.blocks)
    return is_there and walk.blocks[mark.block].is_markable and mark.ttl in ttls


def _keeps_order(mark: Mark, given: Iterable[tuple[int, str]]) -> bool:
    """Whether every mark of an hour still stands before every mark of five minutes."""
    if mark.ttl == "1h":
        return all(ttl != "5m" or index > mark.block for index, ttl in given)
    return all(ttl != "1h" or index < mark.block for index, ttl in given)


def _misplaced(walk: Walk, block: Block) -> str | None:
    """Why no mark may stand on a block; `None` where nobody has said so."""
    if block.is_markable:
        return None
    kind = _field(block, "type")
    if walk.endpoint == "anthropic.messages":
        if kind in ("thinking", "redacted_thinking"):
            return "it is a block of thinking, which is cached with what follows it"
        is_empty = kind == "text" and block.tier != "tools" and not _field(block, "text")
        return "its text is empty" if is_empty else None
    if _field(block, "role") == "assistant":
        return "it is a part of the model's own message; mark what the user or a tool said"
    return None


def _field(block: Block, name: str) -> Any:
    import msgspec  # for marks in the wrong place only

    fields = msgspec.json.decode(block.data)
    return fields.get(name) if isinstance(fields, dict) else None


def _too_many(walk: Walk, own: Sequence[Block]) -> str | None:
    count, end = len(own), _end(walk)
    # On a last block that is marked alike, it may be that the whole request's takes no place.
    needs_place = end is not None and walk.whole_mark not in (None, end.mark)
    if count <= _MAX_ANTHROPIC - needs_place:
        return None
    places = ", ".join(path_text(block.path) for block in own)
    whole = ", beside the one on the whole request" if needs_place else ""
    return (
        f"a request may carry at most {_MAX_ANTHROPIC} cache marks, and {count} blocks are marked"
        f"{whole} ({places}); take off {count + bool(whole) - _MAX_ANTHROPIC} of them"
    )


def _disordered(walk: Walk, own: Sequence[Block]) -> str | None:
    short: Block | None = None
    for block in own:
        if block.mark == "1h" and short is not None:
            return (
                f"the mark of 1h on {path_text(block.path)} stands after the one of 5m on "
                f"{path_text(short.path)}: in the order tools, system, messages, every mark of "
                "1h must stand before every one of 5m"
            )
        short = block if short is None and block.mark == "5m" else short
    end = _end(walk)
    if walk.whole_mark is None or end is None:
        return None
    if end.mark is not None and end.mark != walk.whole_mark:
        return (
            f"the whole request is marked with {walk.whole_mark} and its last block, "
            f"{path_text(end.path)}, with {end.mark}: use one time to live, or one mark"
        )
    if walk.whole_mark == "1h" and short is not None:
        return (
            f"the mark of 1h on the whole request acts at its end, after the one of 5m on "
            f"{path_text(short.path)}: every mark of 1h must stand before every one of 5m"
        )
    return None
