"""What differs between two JSON values: where, and what each of them holds there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["changes"]

_INDEX = re.compile(r"\[\d+\]")
_SHOWN = 48
_BEFORE = 12


def changes(recorded: Any, asked: Any, *, ignore: Iterable[str] = ()) -> list[str]:
    """Sentences such as `messages[0].content: recorded 'Hi', asked 'Hello'`.

    Args:
        ignore: Paths that may differ, with all below them; `[]` is any index.
    """
    ignored = tuple(ignore)
    return [why for path, why in _walk(recorded, asked, "") if not _is_under(path, ignored)]


def _is_under(path: str, ignored: Sequence[str]) -> bool:
    anywhere = _INDEX.sub("[]", path)
    return any(
        one.startswith(prefix) and one[len(prefix) : len(prefix) + 1] in ("", ".", "[")
        for prefix in ignored
        for one in (path, anywhere)
    )


def _walk(recorded: Any, asked: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(recorded, Mapping) and isinstance(asked, Mapping):
        for key in dict.fromkeys((*recorded, *asked)):
            yield from _member(recorded, asked, key, f"{path}.{key}" if path else str(key))
    elif isinstance(recorded, list) and isinstance(asked, list):
        both = min(len(recorded), len(asked))
        for index in range(both):
            yield from _walk(recorded[index], asked[index], f"{path}[{index}]")
        if len(recorded) != len(asked):
            lost = recorded[both:] or asked[both:]
            which = "recorded" if recorded[both:] else "asked"
            where = f"{path}[{both}]"
            num = f"{len(recorded)} recorded, {len(asked)} asked"
            yield where, f"{where}: only in the one {which}, {_short(lost[0])} ({num})"
    elif recorded != asked or isinstance(recorded, bool) != isinstance(asked, bool):
        old, new = _pair(recorded, asked)
        yield path, f"{path or 'the body'}: recorded {old}, asked {new}"


def _member(
    recorded: Mapping[str, Any], asked: Mapping[str, Any], key: str, path: str
) -> Iterator[tuple[str, str]]:
    if key not in asked:
        yield path, f"{path}: recorded {_short(recorded[key])}, asked without it"
    elif key not in recorded:
        yield path, f"{path}: recorded without it, asked {_short(asked[key])}"
    else:
        yield from _walk(recorded[key], asked[key], path)


def _pair(recorded: Any, asked: Any) -> tuple[str, str]:
    """Both values shortened; of two texts the part where they begin to differ."""
    if not (isinstance(recorded, str) and isinstance(asked, str)):
        return _short(recorded), _short(asked)
    same = next(
        (at for at, (old, new) in enumerate(zip(recorded, asked, strict=False)) if old != new),
        min(len(recorded), len(asked)),
    )
    start = max(0, same - _BEFORE) if max(len(recorded), len(asked)) > _SHOWN else 0
    return _part(recorded, start), _part(asked, start)


def _part(text: str, start: int) -> str:
    end = start + _SHOWN
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if len(text) > end else ''}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
