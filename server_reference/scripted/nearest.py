"""Unknown names: what is said of one, with the nearest known name beside it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest", "unknown"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or `None` when none is like it."""
    names = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), list(names), n=1, cutoff=0.5)
    return names[found[0]] if found else None


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """A sentence: `name` is no `what`, and which known one was probably meant."""
    names = sorted(known)
    close = nearest(str(name), names)
    meant = f"did you mean {close!r}? " if close else ""
    return f"{name!r} is no {what}; {meant}known are {', '.join(names)}"
