"""JSON schemas of tools and structured output in each API's requests.

That results match calls, names are unique and schemas can be used, these schemas do not say.
"""

from __future__ import annotations

from . import anthropic_tools, openai_tools
from .fields import TextBlocks
from .openapi_parts import (
    FLAG,
    MAYBE_TEXT,
    TEXT,
    Schema,
    content,
    no_more_than,
    object_of,
    or_null,
    passing,
)
from .tools import MOST_TOOLS, NAME

__all__ = [
    "anthropic_choice",
    "anthropic_format",
    "anthropic_tools_of",
    "openai_call",
    "openai_choice",
    "openai_format",
    "openai_tools_of",
    "result_block",
    "use_block",
]

_NAME: Schema = {"type": "string", "pattern": NAME}
_ANY: Schema = {"type": "object"}
_ARGUMENTS: Schema = {
    "type": "object",
    "properties": {"type": {"const": "object"}},
    "required": ["type"],
}


def anthropic_tools_of() -> Schema:
    """`tools` of the Messages format."""
    known = anthropic_tools
    tool = object_of(
        {
            **passing(known.TOOL_IGNORED, known.TOOL_NOT_IMPLEMENTED),
            "name": _NAME,
            "description": MAYBE_TEXT,
            "input_schema": _ARGUMENTS,
            "strict": FLAG,
        },
        required=["name", "input_schema"],
        closed=True,
    )
    return or_null(no_more_than(MOST_TOOLS, tool))


def anthropic_choice() -> Schema:
    """`tool_choice` of the Messages format."""
    fields: dict[str, dict[str, Schema]] = {
        kind: {} if kind == "none" else {"disable_parallel_tool_use": FLAG}
        for kind in anthropic_tools.CHOICES
    }
    fields["tool"]["name"] = _NAME
    choices = [
        object_of(
            {"type": {"const": kind}, **more},
            required=["type", *(["name"] if "name" in more else [])],
            closed=True,
        )
        for kind, more in fields.items()
    ]
    return or_null({"anyOf": choices})


def anthropic_format() -> Schema:
    """What the Messages format takes as `output_format`."""
    fields: dict[str, Schema] = {"type": {"const": "json_schema"}, "schema": _ANY}
    return or_null(object_of(fields, required=list(fields), closed=True))


def use_block(text: TextBlocks) -> Schema:
    """A call in an assistant's message."""
    called: dict[str, Schema] = {
        "type": {"const": "tool_use"},
        "id": TEXT,
        "name": TEXT,
        "input": _ANY,
    }
    neutral = passing(text.ignored, anthropic_tools.CALL_NOT_IMPLEMENTED)
    return object_of(called | neutral, required=list(called), closed=True)


def result_block(text: TextBlocks) -> Schema:
    """A call's result in a user's message."""
    fields: dict[str, Schema] = {"type": {"const": "tool_result"}, "tool_use_id": TEXT}
    more: dict[str, Schema] = {
        **passing(text.ignored, anthropic_tools.RESULT_NOT_IMPLEMENTED),
        "content": or_null({"anyOf": content(text)}),
        "is_error": FLAG,
    }
    return object_of(fields | more, required=list(fields), closed=True)


def openai_tools_of(*, nested: bool) -> Schema:
    """`tools` of OpenAI's formats."""
    function: dict[str, Schema] = {
        "name": _NAME,
        "description": MAYBE_TEXT,
        "parameters": or_null(_ARGUMENTS),
        "strict": FLAG,
    }
    if not nested:
        function |= passing((), openai_tools.NOT_IMPLEMENTED)
    tool = _of_type("function", function, required=["name"], nested=nested)
    return or_null(no_more_than(MOST_TOOLS, tool))


def openai_choice(*, nested: bool) -> Schema:
    """`tool_choice` of OpenAI's formats."""
    named = _of_type("function", {"name": _NAME}, required=["name"], nested=nested)
    fields: dict[str, Schema] = {
        "mode": {"enum": list(openai_tools.MODES[1:])},
        "tools": {"type": "array", "items": named, "minItems": 1},
    }
    allowed = _of_type("allowed_tools", fields, required=list(fields), nested=nested)
    return {"anyOf": [{"enum": [*openai_tools.MODES, None]}, named, allowed]}


def openai_format(*, nested: bool) -> Schema:
    """What OpenAI's formats take as the output's format."""
    fields: dict[str, Schema] = {
        "name": _NAME,
        "description": MAYBE_TEXT,
        "schema": _ANY,
        "strict": FLAG,
    }
    plain = {"type": {"enum": [kind for kind in openai_tools.FORMATS if kind != "json_schema"]}}
    formats = [
        object_of(plain, required=["type"], closed=True),
        _of_type("json_schema", fields, required=["name", "schema"], nested=nested),
    ]
    return or_null({"anyOf": formats})


def openai_call() -> Schema:
    """A call in an assistant's message of Chat Completions."""
    function = object_of(
        {"name": TEXT, "arguments": TEXT}, required=["name", "arguments"], closed=True
    )
    fields: dict[str, Schema] = {"id": TEXT, "type": {"const": "function"}, "function": function}
    return object_of(fields | {"index": {}}, required=list(fields), closed=True)


def _of_type(kind: str, fields: dict[str, Schema], *, required: list[str], nested: bool) -> Schema:
    """An object of a type, whose fields one API puts into another object of that name."""
    type_: dict[str, Schema] = {"type": {"const": kind}}
    if not nested:
        return object_of(type_ | fields, required=["type", *required], closed=True)
    inner = object_of(fields, required=required, closed=True)
    return object_of(type_ | {kind: inner}, required=["type", kind], closed=True)
