"""The events of a Responses stream, joined into the response that they tell.

Source: OpenAI API reference, "Responses: streaming events".
"""

from __future__ import annotations

from typing import Any

from .openai_responses_types import OutputItem, Response, ResponseStreamEvent
from .value import Value

__all__ = ["ResponseAccumulator"]

# A delta's event: the type of the item, its list, the type of the part there, and its field.
_PART_DELTAS = {
    "response.output_text.delta": ("message", "content", "output_text", "text"),
    "response.refusal.delta": ("message", "content", "refusal", "refusal"),
    "response.reasoning_text.delta": ("reasoning", "content", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "summary_text", "text"),
}
# A delta's event: the type of the item and its field that grows.
_ITEM_DELTAS = {
    "response.function_call_arguments.delta": ("function_call", "arguments"),
    "response.mcp_call_arguments.delta": ("mcp_call", "arguments"),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "input"),
    "response.code_interpreter_call_code.delta": ("code_interpreter_call", "code"),
}
_PARTS = {
    "response.content_part.added": ("message", "content"),
    "response.content_part.done": ("message", "content"),
    "response.reasoning_summary_part.added": ("reasoning", "summary"),
    "response.reasoning_summary_part.done": ("reasoning", "summary"),
}


class ResponseAccumulator:
    """Joins the events of one stream, however odd their order."""

    def __init__(self) -> None:
        self._response: Response | None = None
        self._items: dict[int, _Item] = {}

    def add(self, value: Any) -> None:
        """Take in the next event; what is unknown is passed over."""
        if not isinstance(value, ResponseStreamEvent):
            return
        kind = str(value.type)
        if value.response is not None:
            self._response = value.response
        elif value.item is not None:
            item = self._item(value, value.item.type)
            item.start(value.item, is_done=kind == "response.output_item.done")
        elif kind in _PART_DELTAS:
            of, name, part_kind, field = _PART_DELTAS[kind]
            self._item(value, of).grow_part(value, name, part_kind, field)
        elif kind in _ITEM_DELTAS:
            of, field = _ITEM_DELTAS[kind]
            self._item(value, of).grow(field, value.delta)
        elif kind in _PARTS and value.part is not None:
            of, name = _PARTS[kind]
            self._item(value, of).set_part(name, _place(value), value.part.to_dict())
        elif kind == "response.output_text.annotation.added":
            self._item(value, "message").annotate(value)

    def result(self) -> Response | None:
        """The response, as far as it has come; `None` before anything has."""
        response = self._response
        if response is not None and (response.output or not self._items):
            return response
        if response is None and not self._items:
            return None
        # Cut, or its last event has an empty output (vllm#30223): the items are what came.
        fields: dict[str, Any] = {"object": "response"}
        if response is not None:
            fields = response.to_dict()
        output = [self._items[index].value() for index in sorted(self._items)]
        return Response.of({**fields, "output": output})

    def _item(self, value: ResponseStreamEvent, kind: str | None) -> _Item:
        index = value.output_index or 0
        item = self._items.get(index)
        if item is None:
            item = self._items[index] = _Item({"type": kind})  # a delta may come first
        return item


class _Item:
    """One item: as it started, and the pieces that came since, or as it was when done."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self._parts: dict[str, dict[int, _Part]] = {}
        self._pieces: dict[str, list[str]] = {}
        self._done: OutputItem | None = None

    def start(self, item: OutputItem, *, is_done: bool) -> None:
        if is_done:
            self._done = item
            return
        self._start = item.to_dict()
        for name in ("content", "summary"):
            parts = self._start.get(name)
            for index, part in enumerate(parts if isinstance(parts, list) else ()):
                if isinstance(part, dict):
                    self.set_part(name, index, part)

    def set_part(self, name: str, index: int, part: dict[str, Any]) -> None:
        self._parts.setdefault(name, {})[index] = _Part(part)

    def grow_part(self, value: ResponseStreamEvent, name: str, kind: str, field: str) -> None:
        if not isinstance(value.delta, str):
            return
        parts = self._parts.setdefault(name, {})
        part = parts.setdefault(_place(value), _Part({"type": kind}))
        part.grow(field, value.delta)

    def annotate(self, value: ResponseStreamEvent) -> None:
        parts = self._parts.setdefault("content", {})
        part = parts.setdefault(_place(value), _Part({"type": "output_text"}))
        part.annotations.append(value.annotation)

    def grow(self, field: str, piece: Any) -> None:
        # null is no text (opentelemetry-python-contrib#4350)
        if isinstance(piece, str):
            self._pieces.setdefault(field, []).append(piece)

    def value(self) -> Value | dict[str, Any]:
        if self._done is not None:
            return self._done
        fields = dict(self._start)
        for field, pieces in self._pieces.items():
            fields[field] = _text(fields.get(field)) + "".join(pieces)
        for name, parts in self._parts.items():
            fields[name] = [parts[index].fields() for index in sorted(parts)]
        return fields


class _Part:
    """One part of an item, and the pieces that came since it started."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self._pieces: dict[str, list[str]] = {}
        self.annotations: list[Any] = []

    def grow(self, field: str, piece: str) -> None:
        self._pieces.setdefault(field, []).append(piece)

    def fields(self) -> dict[str, Any]:
        fields = dict(self._start)
        for field, pieces in self._pieces.items():
            fields[field] = _text(fields.get(field)) + "".join(pieces)
        if self.annotations:
            known = fields.get("annotations")
            fields["annotations"] = [*(known if isinstance(known, list) else ()), *self.annotations]
        return fields


def _place(value: ResponseStreamEvent) -> int:
    """The index of the part that an event is about."""
    index = value.content_index if value.summary_index is None else value.summary_index
    return index or 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
