"""What the APIs have in common about tools and structured output: limits, and what fits what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .chat import Message, Tool, ToolChoice
from .errors import shortened
from .fields import Fields

__all__ = [
    "LONGEST_NAME",
    "MOST_TOOLS",
    "NAME",
    "call",
    "check_choice",
    "check_results",
    "read_name",
    "read_tool",
    "schema_source",
    "unique",
]

MOST_TOOLS = 512
LONGEST_NAME = 128
NAME = rf"^[a-zA-Z0-9_-]{{1,{LONGEST_NAME}}}$"


def read_tool(fields: Fields, *, schema: str) -> Tool:
    """A function by its name, description, `strict` and its arguments' schema.

    Args:
        schema: The field that holds it; without one it takes no arguments.

    Raises:
        ApiError: What is wrong with it.
    """
    name = read_name(fields)
    given = fields.mapping(schema)
    parameters = {"type": "object", "properties": {}} if given is None else given
    if parameters.get("type") != "object":
        raise fields.wrong(schema, "must have the type 'object': arguments have names")
    return Tool(
        name=name,
        description=fields.text("description"),
        parameters=parameters,
        strict=fields.flag("strict"),
    )


def read_name(fields: Fields) -> str:
    """The field `name`, as tools and formats may be called."""
    name = fields.required("name", fields.text("name"))
    if not re.fullmatch(NAME, name):
        raise fields.wrong(
            "name",
            f"must be of 1 to {LONGEST_NAME} letters, digits, _ and -, not {shortened(name)!r}",
        )
    return name


def schema_source(schema: Mapping[str, Any]) -> str:
    """A JSON schema as JSON; whether it can be used, the engine says."""
    return msgspec.json.encode(schema).decode()


def unique(tools: Iterable[Tool], fields: Fields) -> tuple[Tool, ...]:
    """The tools, no two of one name and not too many.

    Raises:
        ApiError: They are.
    """
    found = {}
    for tool in tools:
        if tool.name in found:
            raise fields.wrong("tools", f"has two of the name {shortened(tool.name)!r}")
        found[tool.name] = tool
    if len(found) > MOST_TOOLS:
        raise fields.wrong("tools", f"may hold {MOST_TOOLS} tools, not {len(found):,}")
    return tuple(found.values())


def check_choice(choice: ToolChoice, tools: Iterable[Tool], fields: Fields) -> ToolChoice:
    """`choice`, whose tools there are.

    Raises:
        ApiError: There are not.
    """
    known = {tool.name for tool in tools}
    if choice.mode == "required" and not known:
        raise fields.wrong("tool_choice", "needs tools to choose from")
    for name in choice.names:
        if name not in known:
            raise fields.wrong(
                "tool_choice", f"names {shortened(name)!r}, which is none of the tools"
            )
    return choice


def call(id: str, name: str, arguments: object) -> dict[str, Any]:
    """A call in an assistant's message, as chat templates read it."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def check_results(messages: list[Message], fields: Fields, name: str) -> None:
    """See that every call has its result right after it, and name the results' tools.

    Args:
        name: The field that held the messages.

    Raises:
        ApiError: A call has no result, or a result no call.
    """
    open_calls: dict[str, str] = {}
    for message in messages:
        if message["role"] == "tool":
            id = message["tool_call_id"]
            if id not in open_calls:
                raise fields.wrong(
                    name, f"has a result for {shortened(id)!r}, which is no call just before it"
                )
            message["name"] = open_calls.pop(id)
            continue
        _check_none_open(open_calls, fields, name)
        for one in message.get("tool_calls", ()):
            if one["id"] in open_calls:
                raise fields.wrong(name, f"has two calls of the id {shortened(one['id'])!r}")
            open_calls[one["id"]] = one["function"]["name"]
    _check_none_open(open_calls, fields, name)


def _check_none_open(open_calls: Mapping[str, str], fields: Fields, name: str) -> None:
    if open_calls:
        id, tool = next(iter(open_calls.items()))
        raise fields.wrong(
            name,
            f"has no result for the call {shortened(id)!r} of {shortened(tool)!r}; "
            f"results come right after their calls",
        )
