"""The events of a Messages stream, joined into the message that they tell.

Source: Anthropic API reference, "Streaming messages".
"""

from __future__ import annotations

from typing import Any

import msgspec

from .anthropic_types import EventDelta, Message, MessageStreamEvent
from .value import decode

__all__ = ["MessageAccumulator"]

_TYPE_BY_DELTA = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "tool_use",
}


class MessageAccumulator:
    """Joins the events of one stream, however odd their order."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._by_index: dict[int | None, _Block] = {}

    def add(self, value: Any) -> None:
        """Take in the next event; what is unknown is passed over."""
        if not isinstance(value, MessageStreamEvent):
            return
        match value.type:
            case "content_block_delta":
                self._block(value).add(value.delta)
            case "content_block_start" if value.content_block is not None:
                self._open(value.index, value.content_block.to_dict(), begins=True)
            case "content_block_stop":
                if value.index in self._by_index:
                    self._by_index[value.index].stop()
            case "message_start" if value.message is not None:
                self._message = value.message.to_dict()
                content = self._message.pop("content", None)
                for block in content if isinstance(content, list) else ():
                    if isinstance(block, dict):
                        self._blocks.append(_Block(block))
            case "message_delta":
                self._update(value)
            case _:
                pass

    def result(self) -> Message | None:
        """The message, as far as it has come; `None` before anything has."""
        if not self._message and not self._blocks:
            return None
        start = dict(self._message)
        start.setdefault("type", "message")
        start.setdefault("role", "assistant")
        usage = start.pop("usage", None)
        end = {"stop_reason": start.pop("stop_reason", None)}
        end["stop_sequence"] = start.pop("stop_sequence", None)
        content = [block.fields() for block in self._blocks]
        return Message.of({**start, "content": content, **end, "usage": usage})

    def _open(self, index: int | None, fields: dict[str, Any], *, begins: bool) -> _Block:
        block = self._by_index.get(index)
        if begins and block is not None and not block.has_begun:
            block.begin(fields)
            return block
        block = _Block(fields, has_begun=begins)
        self._blocks.append(block)
        self._by_index[index] = block
        return block

    def _block(self, value: MessageStreamEvent) -> _Block:
        block = self._by_index.get(value.index)
        if block is not None:
            return block
        # A delta before its start.
        kind = _TYPE_BY_DELTA.get(str(value.delta.type), "text")
        return self._open(value.index, {"type": kind}, begins=False)

    def _update(self, value: MessageStreamEvent) -> None:
        event = value.to_dict()
        for name, told in event.items():
            if name == "delta" and isinstance(told, dict):
                self._message |= told
            elif name == "usage" and isinstance(told, dict):
                # Cumulative counts replace those of the start; a null tells nothing.
                counts = self._message.get("usage")
                new = {key: count for key, count in told.items() if count is not None}
                self._message["usage"] = counts | new if isinstance(counts, dict) else new
            elif name not in ("type", "delta", "usage"):
                self._message[name] = told


class _Block:
    """One block: as it started, and the pieces that came since."""

    def __init__(self, start: dict[str, Any], *, has_begun: bool = True) -> None:
        self._start = start
        self.has_begun = has_begun
        self._pieces: dict[str, list[str]] = {}
        self._json: list[str] = []

    def begin(self, start: dict[str, Any]) -> None:
        """Its start, which came after pieces of it."""
        self._start, self.has_begun = self._start | start, True

    def add(self, delta: EventDelta) -> None:
        # Any type may have come, see `Text`.
        if isinstance(delta.text, str):
            self._add_text("text", delta.text)
        elif isinstance(delta.partial_json, str):
            self._json.append(delta.partial_json)
        elif isinstance(delta.thinking, str):
            self._add_text("thinking", delta.thinking)
        elif delta.signature is not None:
            self._start["signature"] = delta.signature
        elif delta.citation is not None:
            citations = self._start.get("citations") or []
            self._start["citations"] = [*citations, delta.citation]

    def stop(self) -> None:
        """The input of a tool is complete: parse it, or keep the text that is no JSON."""
        text = "".join(self._json)
        self._json = []
        if not text:
            return
        try:
            self._start["input"] = decode(text)
        except (msgspec.DecodeError, RecursionError):
            self._start["input"] = text

    def fields(self) -> dict[str, Any]:
        joined = {name: "".join(pieces) for name, pieces in self._pieces.items()}
        if self._json:  # cut before its stop: any value read from it could still change
            joined["input"] = "".join(self._json)
        return self._start | joined

    def _add_text(self, name: str, piece: str) -> None:
        pieces = self._pieces.get(name)
        if pieces is None:
            start = self._start.get(name)
            pieces = self._pieces[name] = [start if isinstance(start, str) else ""]
        pieces.append(piece)
