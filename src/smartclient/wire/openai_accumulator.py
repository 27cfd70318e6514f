"""The chunks of a Chat Completions stream, joined into the completion that they tell.

Source: OpenAI API reference, "Chat Completions", "Streaming".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .openai_types import ChatCompletion, ChatCompletionChunk

__all__ = ["CompletionAccumulator"]

_TEXTS = frozenset({"content", "refusal", "reasoning_content", "reasoning"})


class CompletionAccumulator:
    """Joins the chunks of one stream, in the dialects of all who speak the format."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}

    def add(self, value: Any) -> None:
        """Take in the next chunk; what is unknown is passed over."""
        if not isinstance(value, ChatCompletionChunk):
            return
        for name, told in value.to_dict().items():
            if name == "choices":
                for choice in _objects(told):
                    index = choice.get("index")
                    key = index if isinstance(index, int) else 0
                    self._choices.setdefault(key, _Choice()).add(choice)
            elif told or name not in self._fields:
                # The last one told wins, but empty names in the first chunk, or null usage
                # in the last, tell nothing.
                self._fields[name] = told

    def result(self) -> ChatCompletion | None:
        """The completion, as far as it has come; `None` before anything has."""
        if not self._fields and not self._choices:
            return None
        fields = self._fields | {"object": "chat.completion"}
        fields.pop("obfuscation", None)  # padding that each chunk has of its own
        usage = fields.pop("usage", None)
        choices = [{"index": n, **self._choices[n].fields()} for n in sorted(self._choices)]
        return ChatCompletion.of({**fields, "choices": choices, "usage": usage})


class _Choice:
    """One choice: its message in pieces, and what is told beside it."""

    def __init__(self) -> None:
        self._beside: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls = _ToolCalls()
        self._function: dict[str, Any] = {}

    def add(self, choice: dict[str, Any]) -> None:
        for name, told in choice.items():
            match name, told:
                case "delta", dict():
                    self._add_delta(told)
                case "logprobs", dict():
                    _extend(self._beside.setdefault("logprobs", {}), told)
                case (("index" | "delta"), _):
                    pass
                case _ if told is not None:
                    self._beside[name] = told

    def fields(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None} | self._message
        message |= {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._calls.calls:
            message["tool_calls"] = self._calls.fields()
        if self._function:
            message["function_call"] = self._function
        beside = {"logprobs": None, "finish_reason": None} | self._beside
        return {"message": message, **beside}

    def _add_delta(self, delta: dict[str, Any]) -> None:
        for name, told in delta.items():
            if name in _TEXTS and isinstance(told, str):
                self._texts.setdefault(name, []).append(told)
            elif name == "tool_calls":
                for piece in _objects(told):
                    self._calls.add(piece)
            elif name == "function_call" and isinstance(told, dict):
                _join_function(self._function, told)
            elif told is not None:
                _extend(self._message, {name: told})


class _ToolCalls:
    """The tool calls of one message.

    Pieces belong together by id; by index only where they have none, because some servers
    give every call the index 0 (smolagents#1569).
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._by_id: dict[str, dict[str, Any]] = {}
        self._by_index: dict[str, dict[str, Any]] = {}

    def add(self, piece: dict[str, Any]) -> None:
        name, index = str(piece.get("id") or ""), str(piece.get("index"))
        call = self._by_id.get(name) if name else self._by_index.get(index)
        if call is None:
            call = self._adopted(name, index)
        if name:
            self._by_id[name] = call
        self._by_index[index] = call
        for field, told in piece.items():
            if field == "function" and isinstance(told, dict):
                _join_function(call.setdefault("function", {}), told)
            elif field not in ("index", "function") and told:
                call[field] = told

    def fields(self) -> list[dict[str, Any]]:
        whole = {"type": "function", "function": {"name": None, "arguments": ""}}
        return [whole | call for call in self.calls]

    def _adopted(self, name: str, index: str) -> dict[str, Any]:
        """The call of a piece with a new id, or with neither a known id nor a known index."""
        known = self._by_index.get(index)
        if name and known is not None and "id" not in known:
            return known  # its id comes late
        if not name and index == "None" and self.calls:
            return self.calls[-1]
        self.calls.append({})
        return self.calls[-1]


def _join_function(function: dict[str, Any], piece: dict[str, Any]) -> None:
    for field, told in piece.items():
        if field == "arguments":
            # null is no text (opentelemetry-python-contrib#4350); some send an object at once
            text = told if isinstance(told, str) else ""
            function["arguments"] = function.get("arguments", "") + text
        elif field == "name" and function.get("name") and isinstance(told, str):
            # In pieces, or the whole name again with each piece.
            function["name"] += told if told != function["name"] else ""
        elif told is not None and (field != "name" or isinstance(told, str)):
            function[field] = told


def _extend(fields: dict[str, Any], more: dict[str, Any]) -> None:
    """Lists grow; of anything else the last one told wins."""
    for name, told in more.items():
        known = fields.get(name)
        if isinstance(known, list) and isinstance(told, list):
            fields[name] = [*known, *told]
        elif told is not None:
            fields[name] = told


def _objects(told: Any) -> Iterable[dict[str, Any]]:
    return (item for item in told if isinstance(item, dict)) if isinstance(told, list) else ()
