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
    copy = _Copy(payload, name)
    for index, block in enumerate(blocks):
        if index in marks:
            copy.put(block.path, marks[index])
        elif block.is_markable and type(block.path[-1]) is str:
            copy.write_out(block.path)
    return copy.root


class _Copy:
    """A payload whose containers are copied once, on the way to what changes."""

    def __init__(self, payload: Mapping[str, Any], name: str) -> None:
        self.root: dict[str, Any] = dict(payload)
        self._own: dict[Path, Any] = {(): self.root}
        self._name = name

    def put(self, path: Path, field: Any) -> None:
        """Add the field to the block at `path`; a text becomes a block."""
        parent = self._container(path[:-1])
        last = path[-1]
        value = parent[last]
        if not isinstance(value, str):
            parent[last] = {**(as_object(value) or {}), self._name: field}
            return
        kind = "input_text" if path[0] == "input" else "text"
        block: dict[str, Any] = {"type": kind, "text": value}
        if field is not None:
            block[self._name] = field
        parent[last] = [{"role": "user", "content": [block]}] if path == ("input",) else [block]

    def write_out(self, path: Path) -> None:
        """Make the text at `path` a block."""
        if len(path) != 3:
            self.put(path, None)
            return
        # A message with a text holds no other block to write to, so nobody looks for its copy.
        name, number, field = path
        rows = self._own.get((name,)) or self._container((name,))
        row = rows[number]
        kind = "input_text" if name == "input" else "text"
        row = row.copy() if type(row) is dict else dict(as_object(row) or {})
        row[field] = [{"type": kind, "text": row[field]}]
        rows[number] = row

    def _container(self, path: Path) -> Any:
        """The dict or list at `path`, as a copy that is ours to change."""
        own = self._own.get(path)
        if own is None:
            parent = self._container(path[:-1])
            last = path[-1]
            value = parent[last]
            if type(value) is dict:
                own = value.copy()
            else:
                is_list = isinstance(value, list | tuple)
                own = list(value) if is_list else dict(as_object(value) or {})
            parent[last] = self._own[path] = own
        return own
