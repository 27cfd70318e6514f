"""Where two pieces of JSON first differ, and in what way: keys are never sorted.

One level is read at a time, and only the first part that differs is looked into, so that
a large block costs little more than comparing its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from .blocks import Path
from .order import order_change
from .patterns import Pattern, pattern_of
from .texts import text_difference

__all__ = ["Difference", "DriftKind", "json_difference"]

DriftKind: TypeAlias = Literal[
    "parameter",
    "reorder",
    "added",
    "removed",
    "key_order",
    "whitespace",
    "truncation",
    "type_change",
    "edit",
]
"""In what way two prompts differ where they first do; `docs/how-to/find-drift.md`."""

_MAX_DEPTH = 64
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)


class Difference(Struct, frozen=True, kw_only=True):
    """The first difference of two values.

    Attributes:
        steps: From the values down to what differs.
        offset: Characters of a text that are the same.
        moved: Paths before and now of what changed places.
        texts: Both texts, to take excerpts from.
    """

    kind: DriftKind
    steps: Path
    offset: int | None = None
    pattern: Pattern | None = None
    count: int = 1
    moved: tuple[tuple[Path, Path], ...] = ()
    before_len: int | None = None
    after_len: int | None = None
    texts: tuple[str, str] | None = None


def json_difference(before: bytes, after: bytes) -> Difference:
    """The first difference of two pieces of JSON whose bytes are not the same."""
    steps: Path = ()
    for _ in range(_MAX_DEPTH):
        old, new = _parts(before), _parts(after)
        if _type(before) != _type(after):
            return Difference(kind="type_change", steps=steps)
        if isinstance(old, dict) and isinstance(new, dict):
            found = _of_objects(old, new, steps)
        elif isinstance(old, list) and isinstance(new, list):
            found = _of_lists(old, new, steps)
        else:
            return _of_leaves(before, after, steps)
        if found is None:  # the same values, written in another way
            return _of_spelling(before, after, steps)
        if isinstance(found, Difference):
            return found
        step, before, after = found
        steps = (*steps, step)
    return Difference(kind="edit", steps=steps)


_Inner: TypeAlias = tuple[str | int, bytes, bytes]


def _of_objects(
    old: Mapping[str, bytes], new: Mapping[str, bytes], steps: Path
) -> Difference | _Inner | None:
    for key, other in zip(old, new, strict=False):
        if key != other:
            return _of_keys(old, new, key, other, steps)
        if old[key] != new[key]:
            return key, old[key], new[key]
    if len(old) == len(new):
        return None
    longer = list(old if len(old) > len(new) else new)
    kind: DriftKind = "removed" if len(old) > len(new) else "added"
    first = min(len(old), len(new))
    return Difference(kind=kind, steps=(*steps, longer[first]), count=len(longer) - first)


def _of_keys(
    old: Mapping[str, bytes], new: Mapping[str, bytes], key: str, other: str, steps: Path
) -> Difference:
    """Two objects that go on with different keys."""
    if key in new and other in old:
        return Difference(kind="key_order", steps=steps)
    if key in new:
        return Difference(kind="added", steps=(*steps, other))
    return Difference(kind="removed", steps=(*steps, key))


def _of_lists(
    old: Sequence[bytes], new: Sequence[bytes], steps: Path
) -> Difference | _Inner | None:
    pairs = zip(old, new, strict=False)
    first = next((i for i, (one, other) in enumerate(pairs) if one != other), None)
    if first is None:
        if len(old) == len(new):
            return None
        first = min(len(old), len(new))
    change = order_change(old[first:], new[first:])
    if change.kind == "edit":
        return first, old[first], new[first]
    moved = [((*steps, first + one), (*steps, first + other)) for one, other in change.moved[:10]]
    where = (*steps, first)
    return Difference(kind=change.kind, steps=where, count=change.size, moved=tuple(moved))


def _of_leaves(before: bytes, after: bytes, steps: Path) -> Difference:
    old, new = _text(before), _text(after)
    if old is None or new is None:  # numbers, truths, or what is no JSON
        old, new = (raw.decode("utf-8", "replace") for raw in (before, after))
        if not before.startswith(b'"') and before[:1].isalnum() | before.startswith(b"-"):
            return Difference(kind="edit", steps=steps, pattern=_number_pattern(old, new))
    if old == new:
        return _of_spelling(before, after, steps)
    found = text_difference(old, new)
    return Difference(
        kind=found.kind,
        steps=steps,
        offset=found.offset,
        pattern=found.pattern,
        before_len=found.before_len,
        after_len=found.after_len,
        texts=(old, new),
    )


def _number_pattern(old: str, new: str) -> Pattern | None:
    shared = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    return pattern_of(old, new, shared)


def _of_spelling(before: bytes, after: bytes, steps: Path) -> Difference:
    """The same values: other whitespace between them, or other escapes."""
    same = b"".join(before.split()) == b"".join(after.split())
    return Difference(kind="whitespace" if same else "edit", steps=steps)


def _type(raw: bytes) -> str:
    """The type of a JSON value; whole numbers and others are not the same."""
    first = raw.lstrip()[:1]
    if first in (b"-", *(b"%d" % digit for digit in range(10))):
        return "float" if any(mark in raw for mark in (b".", b"e", b"E")) else "int"
    return {b"t": "bool", b"f": "bool"}.get(first, first.decode("ascii", "replace"))


def _text(raw: bytes) -> str | None:
    if not raw.startswith(b'"'):
        return None
    try:
        return _TEXT.decode(raw)
    except _UNREADABLE:
        found = _forgiven(raw)
        return found if isinstance(found, str) else None


def _parts(raw: bytes) -> dict[str, bytes] | list[bytes] | None:
    """The values inside an object or a list, as bytes; `None` for anything else."""
    first = raw.lstrip()[:1]
    if first not in (b"{", b"["):
        return None
    try:
        if first == b"{":
            return {key: bytes(one) for key, one in _OBJECT.decode(raw).items()}
        return [bytes(one) for one in _LIST.decode(raw)]
    except _UNREADABLE:
        found = _forgiven(raw)
    if isinstance(found, dict):
        return {key: _bytes(one) for key, one in found.items()}
    return [_bytes(one) for one in found] if isinstance(found, list) else None


def _forgiven(raw: bytes) -> Any:
    """What only the standard library reads: half of a character's pair, NaN; else `None`."""
    try:
        return json.loads(raw.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


def _bytes(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
