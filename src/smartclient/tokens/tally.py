"""What a request is made of, before its texts are counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .encodings import Tokenizing
from .values import Kind

__all__ = [
    "DOCUMENTED",
    "FLAT",
    "NESTED",
    "PERHAPS",
    "Spread",
    "Tally",
    "add_content",
    "as_json",
    "listed",
    "plain",
]

Spread = tuple[float, float]
"""By which share the tokens of a text may be fewer, and more, than its own count."""

DOCUMENTED: Spread = (0.0, 0.0)  # stands in the prompt as it is
FLAT: Spread = (0.10, 0.10)  # rendered by the provider in a way that was told once
NESTED: Spread = (0.30, 0.30)  # in a way that nobody told
PERHAPS: Spread = (1.0, 0.0)  # may be dropped


class Tally:
    """Texts, overheads and guesses, gathered by whoever knows the format.

    Args:
        name: The model, as `encodings.bare_name` says it.
        rule: How its text is counted.
    """

    __slots__ = ("has_files", "has_images", "has_tools", "high", "low", "mid", "name", "rule",
                 "texts", "unknown")  # fmt: skip

    def __init__(self, name: str, rule: Tokenizing) -> None:
        self.name, self.rule = name, rule
        self.texts: dict[Spread, list[str]] = {DOCUMENTED: []}
        self.low = self.mid = self.high = 0.0
        self.unknown: list[str] = []
        self.has_tools = self.has_images = self.has_files = False

    @property
    def kind(self) -> Kind:
        """What the request is made of, by the part that is the hardest to count."""
        if self.has_files:
            return "files"
        return "images" if self.has_images else "tools" if self.has_tools else "text"

    def text(self, value: Any, spread: Spread = DOCUMENTED) -> None:
        """A text of the prompt; what is no text counts as its JSON."""
        if value is None:
            return
        if not isinstance(value, str):
            value = as_json(value)
        self.texts.setdefault(spread, []).append(value)

    def add(self, number: float, spread: Spread = DOCUMENTED) -> None:
        """Tokens that are known without counting."""
        self.guess(number * (1.0 - spread[0]), number, number * (1.0 + spread[1]))

    def guess(self, low: float, mid: float, high: float, path: str | None = None) -> None:
        """Tokens of a part that cannot be counted from here, at `path`."""
        self.low, self.mid, self.high = self.low + low, self.mid + mid, self.high + high
        if path is not None:
            self.unknown.append(path)


def plain(value: Any) -> Any:
    """`value` as a mapping, if it is one of ours or of an SDK's that can become one."""
    if isinstance(value, (str, dict, list, tuple)) or value is None:
        return value
    for name in ("to_dict", "model_dump"):
        convert = getattr(value, name, None)
        if callable(convert):
            try:
                return convert()
            except Exception:  # a caller's own object, which then counts as what it shows
                return value
    return dict(value) if isinstance(value, Mapping) else value


def listed(value: Any) -> list[Any]:
    """The items of what should be a list; none of what is no list."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def add_content(
    tally: Tally, content: Any, path: str, add_part: Callable[[Tally, Any, str], None]
) -> None:
    """What a message holds: a text, or parts that `add_part` knows."""
    if not isinstance(content, (list, tuple)):
        tally.text(content)
        return
    for number, part in enumerate(content):
        add_part(tally, plain(part), f"{path}[{number}]")


def as_json(value: Any) -> str:
    """`value` as compact JSON, or as Python shows it where JSON cannot hold it."""
    try:
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), default=_shown, skipkeys=True
        )
    except Exception:  # cycles, depth, endless numbers, and whatever a caller's object does
        return repr(type(value))


def _shown(value: Any) -> Any:
    found = plain(value)
    return str(value) if found is value else found
