"""Every preset by its name, and how one is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..nearest import nearest
from ..ops import Script
from ..request import Received
from . import (
    bodies,
    connections,
    ends,
    http2,
    retries,
    shapes,
    sse,
    texts,
    times,
    usages,
)
from .pieces import Reply
from .presets import KINDS, Preset, PresetFault

__all__ = ["PRESETS", "fault", "greeting", "unknown_fault"]

_MODULES = (sse, ends, shapes, connections, http2, retries, times, usages, bodies, texts)
_NOBODY = Received("", "")


def _presets() -> Mapping[str, Preset[...]]:
    values = (getattr(module, name) for module in _MODULES for name in module.__all__)
    found = [one for one in values if isinstance(one, Preset)]
    order = list(KINDS)
    return {one.name: one for one in sorted(found, key=lambda one: order.index(one.kind))}


PRESETS: Mapping[str, Preset[...]] = _presets()


def fault(name: str, **parameters: Any) -> PresetFault:
    """A preset with its parameters: `Answer(...) | fault("reset_after", events=3)`.

    Raises:
        ValueError: The name or a parameter is unknown, or a value is out of range.
        TypeError: A value is of another type.
    """
    one = _preset(name)
    if "greeting" in one.needs:
        raise ValueError(
            f"{name} happens before a request: give the server greetings={{1: greeting({name!r})}}"
        )
    return one(**parameters)


def greeting(name: str, **parameters: Any) -> Script:
    """A preset that is played before a connection's first request: `greetings={1: …}`.

    Raises:
        ValueError: The name or a parameter is unknown, out of range, or for replies.
        TypeError: A value is of another type.
    """
    one = _preset(name)
    if "greeting" not in one.needs:
        raise ValueError(f"{name} breaks a reply: give a rule's then fault({name!r})")
    return one(**parameters).breaks(Reply.of(()), _NOBODY)


def unknown_fault(name: str, known: Iterable[str]) -> str:
    """A sentence: there is no such fault, and which one was probably meant."""
    close = nearest(str(name), known)
    meant = f"did you mean {close!r}? " if close else ""
    return f"{name!r} is no fault; {meant}`smartclient-server faults` lists all"


def _preset(name: str) -> Preset[...]:
    if name not in PRESETS:
        raise ValueError(unknown_fault(name, PRESETS))
    return PRESETS[name]
