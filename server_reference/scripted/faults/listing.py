"""All faults as text for the terminal: the presets, then what only a client can cause."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ..nearest import unknown
from .client_side import CLIENT_SIDE
from .presets import KINDS, Preset
from .registry import PRESETS, unknown_fault

__all__ = ["listing", "signature", "wrong"]

_WIDTH = 96


def listing(*, kind: str | None = None, name: str | None = None) -> str:
    """The list.

    Args:
        kind: Only faults of this kind.
        name: Only the fault of this name.
    """
    return "\n".join(_lines(kind, name))


def signature(preset: Preset[...]) -> str:
    """How a preset is asked for: `reset_after(events=3)`."""
    shown = (f"{name}={default!r}" for name, (default, _) in preset.parameters.items())
    return f"{preset.name}({', '.join(shown)})"


def wrong(*, kind: str | None, name: str | None) -> str | None:
    """What to say of a kind or a name that no fault has; `None` when one has it."""
    known = [*PRESETS, *(row.name for row in CLIENT_SIDE)]
    if name is not None and name not in known:
        return unknown_fault(name, known)
    return None if kind in (None, *KINDS) else unknown("kind of fault", kind, KINDS)


def _lines(kind: str | None, name: str | None) -> Iterator[str]:
    for one, meaning in KINDS.items():
        presets = [p for p in PRESETS.values() if p.kind == one and name in (None, p.name)]
        others = [row for row in CLIENT_SIDE if row.kind == one and name in (None, row.name)]
        if kind not in (None, one) or not (presets or others):
            continue
        yield f"{one}: {meaning}"
        for preset in presets:
            needs = [*preset.needs, *preset.apis]
            yield f"  {signature(preset)}  [server{': ' if needs else ''}{', '.join(needs)}]"
            yield from _told(preset.condition, preset.right)
        for row in others:
            yield f"  {row.name}  [client]"
            yield from _told(row.condition, row.right, row.why)
        yield ""


def _told(condition: str, right: str, why: str | None = None) -> Iterator[str]:
    told = [condition, f"Right: {right}", *([f"Not by a server: {why}"] if why else [])]
    for text in told:
        yield from textwrap.wrap(text, _WIDTH, initial_indent="      ", subsequent_indent=" " * 8)
