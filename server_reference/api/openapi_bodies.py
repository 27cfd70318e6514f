"""What each endpoint takes, as JSON schemas: from the tables that requests are checked with.

That a prompt is too long for the model, that it has no such token, or that results match calls,
no schema says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import anthropic_messages, openai_chat, openai_responses
from .fields import LONGEST_STOP, MOST_STOPS, VOCABULARY, Bounds
from .openapi_parts import (
    FLAG,
    MAYBE_TEXT,
    NULL,
    TEXT,
    Schema,
    content,
    number,
    object_of,
    or_null,
    passing,
)
from .openapi_tools import (
    anthropic_choice,
    anthropic_format,
    anthropic_tools_of,
    openai_call,
    openai_choice,
    openai_format,
    openai_tools_of,
    result_block,
    use_block,
)

__all__ = ["BODIES"]

_STOP: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_STOP}
_STOPS: dict[str, object] = {"type": ["array", "null"], "items": _STOP, "maxItems": MOST_STOPS}

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
_LOGPROBS: dict[str, object] = {
    "allOf": [
        {
            "if": {
                "properties": {"top_logprobs": {"type": "integer", "minimum": 1}},
                "required": ["top_logprobs"],
            },
            "then": {"properties": {"logprobs": {"const": True}}, "required": ["logprobs"]},
        },
        {
            "if": {
                "properties": {"prompt_logprobs": {"type": "integer"}},
                "required": ["prompt_logprobs"],
            },
            "then": {"not": _STREAMS},
        },
    ]
}
_INCLUDED: dict[str, object] = {
    "if": {
        "properties": {"top_logprobs": {"type": "integer", "minimum": 1}},
        "required": ["top_logprobs"],
    },
    "then": {
        "properties": {
            "include": {"type": "array", "contains": {"const": openai_responses.LOGPROBS}}
        },
        "required": ["include"],
    },
}
_MORE_THAN_A_PREFILL: dict[str, object] = {
    "anyOf": [
        {"minItems": 2},
        {"items": {"properties": {"role": {"const": "user"}}}},
    ]
}


def _message(model: str, *, counting: bool = False) -> Schema:
    known = anthropic_messages
    turns = [
        object_of(
            {
                "role": {"const": role},
                "content": {"anyOf": content(known.TEXT, block(known.TEXT), least=1)},
            },
            required=["role", "content"],
            closed=True,
        )
        for role, block in zip(known.ROLES, (result_block, use_block), strict=True)
    ]
    config = {"format": anthropic_format(), **passing((), known.OUTPUT_CONFIG)}
    messages = {"type": "array", "items": {"anyOf": turns}, "minItems": 1, **_MORE_THAN_A_PREFILL}
    fields = {
        **_sampling(known.BOUNDS),
        **passing(known.IGNORED, known.NOT_IMPLEMENTED),
        "model": {"const": model},
        "messages": messages,
        "output_config": or_null(object_of(config, closed=True)),
        "output_format": anthropic_format(),
        "stop_sequences": _STOPS,
        "stream": FLAG,
        "system": {"anyOf": [*content(known.TEXT), NULL]},
        "tool_choice": anthropic_choice(),
        "tools": anthropic_tools_of(),
    }
    required = ["model", "messages"]
    if not counting:
        required.append("max_tokens")
        fields["max_tokens"] = number("integer", known.BOUNDS["max_tokens"])
    return object_of(fields, required=required, closed=True) | _NO_EMPTY_STREAM


def _chat(model: str) -> Schema:
    known = openai_chat
    options = {**passing(known.STREAM_OPTIONS, {}), "include_usage": FLAG}
    bias = {
        "type": ["object", "null"],
        "additionalProperties": number(["number", "null"], known.BIAS),
        "propertyNames": {"pattern": "^[0-9]{1,10}$"},
        "maxProperties": known.MOST_BIASES,
    }
    ids = {"type": ["array", "null"], "items": number("integer", VOCABULARY)}
    fields = {
        **_sampling(known.BOUNDS),
        **passing(known.IGNORED, known.NOT_IMPLEMENTED),
        "ignore_eos": FLAG,
        "logit_bias": bias,
        "logprobs": FLAG,
        "model": {"const": model},
        "messages": {"type": "array", "items": {"anyOf": _chat_turns()}, "minItems": 1},
        "parallel_tool_calls": FLAG,
        "response_format": openai_format(nested=True),
        "stop": {"anyOf": [_STOP, _STOPS]},
        "stop_token_ids": ids,
        "stream": FLAG,
        "stream_options": or_null(object_of(options, closed=True)),
        "tool_choice": openai_choice(nested=True),
        "tools": openai_tools_of(nested=True),
    }
    body = object_of(fields, required=["model", "messages"], closed=True)
    return body | _ONE_LIMIT | _OPTIONS_ONLY_FOR_STREAMS | _LOGPROBS


def _chat_turns() -> list[Schema]:
    known = openai_chat
    words: Schema = {"anyOf": content(known.TEXT)}
    plain = {
        **passing((), known.MESSAGE_FIELDS),
        "role": {"enum": list(known.ROLES)},
        "content": words,
    }
    calls = plain | {
        "role": {"const": "assistant"},
        "content": or_null(words),
        "tool_calls": {"type": "array", "items": openai_call(), "minItems": 1},
    }
    result: dict[str, Schema] = {"role": {"const": "tool"}, "tool_call_id": TEXT, "content": words}
    return [
        object_of(plain, required=["role", "content"], closed=True),
        object_of(calls, required=["role", "tool_calls"], closed=True),
        object_of(result | passing((), {"name": ()}), required=list(result), closed=True),
    ]


def _response(model: str) -> Schema:
    known = openai_responses
    options = {name: passing(taken, neutral) for name, (taken, neutral) in known.OPTIONS.items()}
    options["text"]["format"] = openai_format(nested=False)
    items = {"type": "array", "items": {"anyOf": _response_items()}, "minItems": 1}
    fields = {
        **_sampling(known.BOUNDS),
        **passing(known.IGNORED, known.NOT_IMPLEMENTED),
        **{name: or_null(object_of(inner, closed=True)) for name, inner in options.items()},
        "model": {"const": model},
        "include": {"type": ["array", "null"], "items": {"enum": list(known.INCLUDED)}},
        "input": {"anyOf": [TEXT, items]},
        "instructions": MAYBE_TEXT,
        "parallel_tool_calls": FLAG,
        "stream": FLAG,
        "tool_choice": openai_choice(nested=False),
        "tools": openai_tools_of(nested=False),
    }
    body = object_of(fields, required=["model", "input"], closed=True)
    return body | {"allOf": [_OPTIONS_ONLY_FOR_STREAMS, _INCLUDED]}


def _response_items() -> list[Schema]:
    known = openai_responses
    turns = [
        object_of(
            {
                **passing(("id", "status"), known.MESSAGE_FIELDS),
                "type": {"enum": ["message", None]},
                "role": {"enum": roles},
                "content": {"anyOf": content(text)},
            },
            required=["role", "content"],
            closed=True,
        )
        for text, roles in (
            (known.INPUT_TEXT, [role for role in known.ROLES if role != "assistant"]),
            (known.OUTPUT_TEXT, ["assistant"]),
        )
    ]
    read: dict[str, dict[str, Schema]] = {
        "function_call": {"arguments": TEXT, "call_id": TEXT, "name": TEXT},
        "function_call_output": {"call_id": TEXT, "output": {"anyOf": content(known.INPUT_TEXT)}},
    }
    others = [
        object_of(
            {**passing(known.ITEM_FIELDS[kind], known.CALLER), **fields, "type": {"const": kind}},
            required=["type", *fields],
            closed=True,
        )
        for kind, fields in read.items()
    ]
    return [*turns, *others]


BODIES: Mapping[str, Callable[[str], Schema]] = {
    "MessageRequest": _message,
    "TokenCountRequest": lambda model: _message(model, counting=True),
    "ChatCompletionRequest": _chat,
    "ResponseRequest": _response,
}
"""Each body by its name, for a server of one model."""


def _sampling(bounds: Mapping[str, Bounds]) -> dict[str, Schema]:
    fractions = ("min_p", "temperature", "top_p")
    return {
        name: number(
            ["number" if name in fractions or "penalty" in name else "integer", "null"], one
        )
        for name, one in bounds.items()
    }
