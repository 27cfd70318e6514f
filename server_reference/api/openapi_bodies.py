"""What each endpoint takes, as JSON schemas: from the tables that requests are checked with.

That a prompt is too long for the model, no schema says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from . import anthropic_messages, openai_chat, openai_responses
from .fields import LONGEST_STOP, MOST_STOPS, Bounds, Neutral, TextBlocks

__all__ = ["BODIES", "Schema", "object_of"]

Schema: TypeAlias = Mapping[str, object]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": ["boolean", "null"]}
_STOP: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_STOP}
_STOPS: dict[str, object] = {"type": ["array", "null"], "items": _STOP, "maxItems": MOST_STOPS}
_NULL: Schema = {"type": "null"}

_STREAMS: Schema = {"properties": {"stream": {"const": True}}, "required": ["stream"]}
_OPTIONS_ONLY_FOR_STREAMS: dict[str, object] = {
    "if": {"properties": {"stream_options": {"type": "object"}}, "required": ["stream_options"]},
    "then": _STREAMS,
}
_NO_EMPTY_STREAM: dict[str, object] = {
    "if": _STREAMS,
    "then": {"properties": {"max_tokens": {"exclusiveMinimum": 0}}},
}
_ONE_LIMIT: dict[str, object] = {
    "not": {
        "properties": {name: {"type": "integer"} for name in openai_chat.LIMITS},
        "required": list(openai_chat.LIMITS),
    }
}
_MORE_THAN_A_PREFILL: dict[str, object] = {
    "anyOf": [
        {"minItems": 2},
        {"items": {"properties": {"role": {"const": "user"}}}},
    ]
}


def object_of(
    fields: Mapping[str, Schema], *, required: Sequence[str] = (), closed: bool = False
) -> dict[str, object]:
    """The schema of an object; `closed`: with no other fields."""
    schema: dict[str, object] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = list(required)
    return schema | {"additionalProperties": False} if closed else schema


def _message(model: str, *, counting: bool = False) -> Schema:
    known = anthropic_messages
    content = _content(known.TEXT, least=1)
    turn = object_of(
        {"role": {"enum": list(known.ROLES)}, "content": content},
        required=["role", "content"],
        closed=True,
    )
    fields = {
        **_sampling(known.BOUNDS),
        **_passing(known.IGNORED, known.NOT_IMPLEMENTED),
        "model": {"const": model},
        "messages": {"type": "array", "items": turn, "minItems": 1, **_MORE_THAN_A_PREFILL},
        "stop_sequences": _STOPS,
        "stream": _FLAG,
        "system": {"anyOf": [*_alternatives(known.TEXT), _NULL]},
    }
    required = ["model", "messages"]
    if not counting:
        required.append("max_tokens")
        fields["max_tokens"] = _number("integer", known.BOUNDS["max_tokens"])
    return object_of(fields, required=required, closed=True) | _NO_EMPTY_STREAM


def _chat(model: str) -> Schema:
    known = openai_chat
    turn = object_of(
        {
            **_passing((), known.MESSAGE_FIELDS),
            "role": {"enum": list(known.ROLES)},
            "content": _content(known.TEXT),
        },
        required=["role", "content"],
        closed=True,
    )
    options = {**_passing(known.STREAM_OPTIONS, {}), "include_usage": _FLAG}
    fields = {
        **_sampling(known.BOUNDS),
        **_passing(known.IGNORED, known.NOT_IMPLEMENTED),
        "model": {"const": model},
        "messages": {"type": "array", "items": turn, "minItems": 1},
        "stop": {"anyOf": [_STOP, _STOPS]},
        "stream": _FLAG,
        "stream_options": {"anyOf": [object_of(options, closed=True), _NULL]},
    }
    body = object_of(fields, required=["model", "messages"], closed=True)
    return body | _ONE_LIMIT | _OPTIONS_ONLY_FOR_STREAMS


def _response(model: str) -> Schema:
    known = openai_responses
    turns = [
        object_of(
            {
                **_passing(("id", "status"), known.MESSAGE_FIELDS),
                "type": {"enum": ["message", None]},
                "role": {"enum": roles},
                "content": _content(text),
            },
            required=["role", "content"],
            closed=True,
        )
        for text, roles in (
            (known.INPUT_TEXT, [role for role in known.ROLES if role != "assistant"]),
            (known.OUTPUT_TEXT, ["assistant"]),
        )
    ]
    options = {
        name: {"anyOf": [object_of(_passing(taken, neutral), closed=True), _NULL]}
        for name, (taken, neutral) in known.OPTIONS.items()
    }
    items = {"type": "array", "items": {"anyOf": turns}, "minItems": 1}
    fields = {
        **_sampling(known.BOUNDS),
        **_passing(known.IGNORED, known.NOT_IMPLEMENTED),
        **options,
        "model": {"const": model},
        "input": {"anyOf": [_TEXT, items]},
        "instructions": {"type": ["string", "null"]},
        "stream": _FLAG,
    }
    return object_of(fields, required=["model", "input"], closed=True) | _OPTIONS_ONLY_FOR_STREAMS


BODIES: Mapping[str, Callable[[str], Schema]] = {
    "MessageRequest": _message,
    "TokenCountRequest": lambda model: _message(model, counting=True),
    "ChatCompletionRequest": _chat,
    "ResponseRequest": _response,
}
"""Each body by its name, for a server of one model."""


def _sampling(bounds: Mapping[str, Bounds]) -> dict[str, Schema]:
    numbers = ("temperature", "top_p")
    return {
        name: _number(["number" if name in numbers else "integer", "null"], one)
        for name, one in bounds.items()
    }


def _number(kind: str | list[str], bounds: Bounds) -> Schema:
    schema: dict[str, object] = {"type": kind, "minimum": bounds.minimum}
    return schema if bounds.maximum is None else schema | {"maximum": bounds.maximum}


def _passing(ignored: Iterable[str], neutral: Neutral) -> dict[str, Schema]:
    """Fields without effect: anything goes, or only what changes nothing."""
    return {
        **{name: {} for name in ignored},
        **{name: {"enum": [*values, None]} for name, values in neutral.items()},
    }


def _content(text: TextBlocks, *, least: int = 0) -> Schema:
    return {"anyOf": _alternatives(text, least=least)}


def _alternatives(text: TextBlocks, *, least: int = 0) -> list[Schema]:
    """A string or blocks, with `least` characters and blocks."""
    words: Schema = {"type": "string", "minLength": least} if least else _TEXT
    block = object_of(
        {**_passing([text.mark], text.neutral), "type": {"const": text.type}, "text": words},
        required=["type", "text"],
        closed=True,
    )
    return [words, {"type": "array", "items": block, "minItems": least}]
