"""The grammar that an output is held to, from the tools and the schema that a request brings.

Source:
    llguidance, docs/syntax.md: the dialect of Lark, `%json` in it, `suffix`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..api.chat import ChatRequest, Tool
from ..api.errors import ApiError
from ..core import MAX_GRAMMAR_LENGTH, Grammar
from .tool_text import CLOSE, OPEN

__all__ = ["grammar_of", "holds_calls"]

# No room for endless blanks, as in the schemas that the engine compiles.
_SPACING = {
    "x-guidance": {"whitespace_flexible": False, "key_separator": ": ?", "item_separator": ", ?"}
}
_ANY_ARGUMENTS = {"type": "object"}
_EMPTY = ("properties", "required")  # which say nothing where they hold nothing
_OR = " | "
_WORDS = ("$comment", "description", "title")
_VALUES = ("const", "default", "enum", "examples")  # which are no schemas, whatever they hold


def holds_calls(request: ChatRequest) -> bool:
    """Whether the grammar of `request` lets nothing start like a call that is none."""
    tools, choice = request.callable_tools, request.tool_choice
    return bool(tools) and (
        choice.mode == "required"
        or request.output_schema is not None
        or any(tool.strict for tool in tools)
    )


def grammar_of(request: ChatRequest) -> Grammar | None:
    """What the output must match; `None`: anything.

    Forced calls match their schemas. Where the model may choose, only those of `strict` tools
    do, and an answer matches the schema for answers.

    Raises:
        ApiError: The tools that may be called are more than a grammar can hold.
    """
    schema, is_forced = request.output_schema, request.tool_choice.mode == "required"
    if not holds_calls(request):
        return None if schema is None else Grammar(kind="json_schema", source=schema)
    if is_forced or schema is not None:
        more = ' ("\\n" call)*' if request.tool_choice.parallel else ""
        lines = [f"start: {'' if is_forced else 'answer | '}call{more}"]
        lines.append(f"call: {_literal(OPEN)} body")
        if not is_forced and schema is not None:
            lines.append(f"answer: %json {_spaced(json.loads(schema))}")
    else:
        lines = _free_text()
    lines.append(f"any_arguments: %json {_spaced(_ANY_ARGUMENTS)}")
    calls = [_call(tool, is_held=is_forced or tool.strict) for tool in request.callable_tools]
    end = _literal("}\n" + CLOSE)
    # One rule whatever their number: there may not be many.
    source = "\n".join([*lines, f"body: ({_OR.join(calls)}) {end}", ""])
    if len(source) > MAX_GRAMMAR_LENGTH:
        raise _too_many(calls, len(source))
    return Grammar(kind="lark", source=source)


def _too_many(calls: Sequence[str], length: int) -> ApiError:
    left, num_fitting = length, len(calls)
    while left > MAX_GRAMMAR_LENGTH and num_fitting:
        num_fitting -= 1
        left -= len(calls[num_fitting]) + len(_OR)
    return ApiError(
        "invalid",
        f"calls of these {len(calls):,} tools are held to their schemas, whose grammar has "
        f"{length:,} characters, of {MAX_GRAMMAR_LENGTH:,} that it may have: give no more than the "
        f"first {num_fitting:,} tools, or name fewer in tool_choice",
        param="tools",
    )


def _free_text() -> list[str]:
    """Text in which whatever follows the mark of a call is one."""
    return [
        "start: (head body)* TAIL",
        f"head[suffix={_literal(OPEN)}]: /(.|\\n)*/",
        f"TAIL: /(.|\\n)*/ & ~/(.|\\n)*{OPEN}(.|\\n)*/",
    ]


def _call(tool: Tool, *, is_held: bool) -> str:
    """The rest of a call after its mark, up to its arguments' end; any, unless they are held."""
    start = f'\n{{"name": {json.dumps(tool.name)}, "arguments": '
    schema = _bare(tool.parameters) if is_held else _ANY_ARGUMENTS
    asks = {name: value for name, value in schema.items() if value or name not in _EMPTY}
    arguments = "any_arguments" if asks == _ANY_ARGUMENTS else f"%json {_spaced(schema)}"
    return f"{_literal(start)} {arguments}"


def _literal(text: str) -> str:
    return json.dumps(text)


def _spaced(schema: Mapping[str, Any]) -> str:
    return json.dumps({**_bare(schema), **_SPACING}, separators=(",", ":"))


def _bare(schema: Any) -> Any:
    """A schema without its words for readers, which are most of it."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: value if name in _VALUES else _bare(value)
        for name, value in schema.items()
        if not (name in _WORDS and isinstance(value, str))
    }
