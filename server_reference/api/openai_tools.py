"""Tools and structured output as both of OpenAI's APIs write them.

Chat Completions nests what Responses has flat: `function` in a tool, in a choice and in a call,
`json_schema` in a format.

Source: OpenAI API reference, "Chat completions" and "Responses"; "Function calling" and
"Structured outputs" guides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .chat import Tool, ToolChoice
from .fields import Fields, Neutral
from .tools import check_choice, read_name, read_tool, schema_source, unique

__all__ = [
    "FORMATS",
    "FORMAT_FIELDS",
    "MODES",
    "NOT_IMPLEMENTED",
    "TOOL_FIELDS",
    "read_arguments",
    "read_choice",
    "read_format",
    "read_tools",
]

TOOL_FIELDS = ("description", "name", "parameters", "strict")
NOT_IMPLEMENTED: Neutral = {
    "allowed_callers": (["direct"],),
    "async": (False,),
    "defer_loading": (False,),
    "output_schema": (),
}
MODES = ("none", "auto", "required")
FORMATS = ("text", "json_object", "json_schema")
FORMAT_FIELDS = ("name", "description", "schema", "strict")

_ANY_OBJECT = {"type": "object"}


def read_tools(fields: Fields, *, nested: bool) -> tuple[Tool, ...]:
    """The field `tools`.

    Raises:
        ApiError: What is wrong with it.
    """
    return unique((_tool(one, nested=nested) for one in fields.objects("tools") or []), fields)


def _tool(fields: Fields, *, nested: bool) -> Tool:
    _check_type(fields, "function", of="tools")
    if nested:
        fields.check(("type", "function"), neutral={})
        fields = fields.required("function", fields.object("function"))
        fields.check(TOOL_FIELDS, neutral={})
    else:
        fields.check(("type", *TOOL_FIELDS), neutral=NOT_IMPLEMENTED)
    return read_tool(fields, schema="parameters")


def read_choice(fields: Fields, tools: tuple[Tool, ...], *, nested: bool) -> ToolChoice:
    """The fields `tool_choice` and `parallel_tool_calls`; a named tool is called once.

    Raises:
        ApiError: What is wrong with them.
    """
    value = fields.value("tool_choice")
    given = fields.value("parallel_tool_calls")
    parallel = True if given is None else fields.flag("parallel_tool_calls")
    if value is None or isinstance(value, str):
        mode = "auto" if value is None else fields.one_of("tool_choice", MODES)
        choice = _choice(mode, (), parallel=parallel)
    else:
        choice = _object_choice(
            fields.required("tool_choice", fields.object("tool_choice")),
            nested=nested,
            parallel=parallel,
        )
    return check_choice(choice, tools, fields)


def _choice(mode: str, names: tuple[str, ...], *, parallel: bool) -> ToolChoice:
    match mode:
        case "none":
            return ToolChoice(mode="none")
        case "required":
            return ToolChoice(mode="required", names=names, parallel=parallel)
        case _:
            return ToolChoice(names=names, parallel=parallel)


def _object_choice(choice: Fields, *, nested: bool, parallel: bool) -> ToolChoice:
    if choice.one_of("type", ("function", "allowed_tools")) == "function":
        named = _inner(choice, "function", ("name",), nested=nested)
        return ToolChoice(mode="required", names=(read_name(named),), parallel=False)
    allowed = _inner(choice, "allowed_tools", ("mode", "tools"), nested=nested)
    mode = allowed.one_of("mode", MODES[1:])
    names = []
    for tool in allowed.required("tools", allowed.objects("tools")):
        _check_type(tool, "function", of="tools")
        names.append(read_name(_inner(tool, "function", ("name",), nested=nested)))
    if not names:
        raise allowed.wrong("tools", "must name at least one tool")
    return _choice(mode, tuple(names), parallel=parallel)


def _inner(fields: Fields, name: str, known: tuple[str, ...], *, nested: bool) -> Fields:
    """The object in the field `name` where the API nests it, or `fields` where it does not."""
    if not nested:
        fields.check(("type", *known), neutral={})
        return fields
    fields.check(("type", name), neutral={})
    inner = fields.required(name, fields.object(name))
    inner.check(known, neutral={})
    return inner


def _check_type(fields: Fields, known: str, *, of: str) -> None:
    kind = fields.required("type", fields.text("type"))
    if kind != known:
        raise fields.wrong("type", f"must be {known!r}: no other {of} are implemented here")


def read_format(format: Fields, *, nested: bool) -> str | None:
    """The schema, as JSON, that a format asks for; `None`: text.

    Raises:
        ApiError: What is wrong with it.
    """
    kind = format.one_of("type", FORMATS)
    if kind != "json_schema":
        format.check(("type",), neutral={})
        return schema_source(_ANY_OBJECT) if kind == "json_object" else None
    inner = _inner(format, "json_schema", FORMAT_FIELDS, nested=nested)
    read_name(inner)
    inner.text("description")
    inner.flag("strict")
    return schema_source(inner.required("schema", inner.mapping("schema")))


def read_arguments(text: str) -> Mapping[str, Any] | str:
    """A call's arguments as an object; what is no JSON of one stays as it came.

    A model that writes no JSON is answered by its client, with what it wrote.
    """
    try:
        arguments = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return text
    return arguments if isinstance(arguments, dict) else text
