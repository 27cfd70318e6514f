"""Writes marks into a copy of a payload, of which only the way to each mark is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .blocks import Block, Path
from .collect import as_object

__all__ = ["written"]


def written(
    payload: Mapping[str, Any],
    blocks: Iterable[Block],
    marks: Mapping[int, Mapping[str, Any]],
    name: str,
) -> dict[str, Any]:
    """`payload` with a field `name` on the blocks of `marks`, and all texts among `blocks`
    that could carry one written out.

    Args:
        marks: Index of a block → what the field holds.
    """
    copy = _Copy(payload)
    for index, block in enumerate(blocks):
        field = marks.get(index)
        if isinstance(block.path[-1], int) and field is None:
            continue
        if block.is_markable:
            copy.put(block.path, {} if field is None else {name: field}, name)
    return copy.root


class _Copy:
    """A payload whose containers are copied once, on the way to what changes."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.root: dict[str, Any] = dict(payload)
        self._own: dict[Path, Any] = {(): self.root}

    def put(self, path: Path, extra: Mapping[str, Any], name: str) -> None:
        """Add the fields `extra` to the block at `path`; a text becomes a block."""
        parent = self._container(path[:-1])
        value = parent[path[-1]]
        if not isinstance(value, str):
            parent[path[-1]] = {**(as_object(value) or {}), **extra}
        elif path == ("input",):
            part = {"type": "input_text", "text": value, **extra}
            parent["input"] = [{"role": "user", "content": [part]}]
        else:
            is_responses = path[0] == "input"
            kind = "input_text" if is_responses else "text"
            parent[path[-1]] = [{"type": kind, "text": value, **extra}]

    def _container(self, path: Path) -> Any:
        """The dict or list at `path`, as a copy that is ours to change."""
        own = self._own.get(path)
        if own is None:
            parent = self._container(path[:-1])
            value = parent[path[-1]]
            is_list = isinstance(value, list | tuple)
            own = list(value) if is_list else dict(as_object(value) or {})
            parent[path[-1]] = self._own[path] = own
        return own
