"""The grammar that an output is held to, from the tools and the schema that a request brings.

Source:
    llguidance, docs/syntax.md: the dialect of Lark, `%json` in it, `suffix`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..api.chat import ChatRequest, Tool
from ..core import Grammar
from .tool_text import CLOSE, OPEN

__all__ = ["grammar_of", "holds_calls"]

# No room for endless blanks, as in the schemas that the engine compiles.
_SPACING = {
    "x-guidance": {"whitespace_flexible": False, "key_separator": ": ?", "item_separator": ", ?"}
}
_ANY_ARGUMENTS = {"type": "object"}


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
    """
    tools, schema = request.callable_tools, request.output_schema
    if not holds_calls(request):
        return None if schema is None else Grammar(kind="json_schema", source=schema)
    is_forced = request.tool_choice.mode == "required"
    if is_forced or schema is not None:
        more = ' ("\\n" call)*' if request.tool_choice.parallel else ""
        lines = [f"start: {'' if is_forced else 'answer | '}call{more}"]
        lines.append(f"call: {_literal(OPEN)} body")
        if not is_forced and schema is not None:
            lines.append(f"answer: %json {_spaced(json.loads(schema))}")
    else:
        lines = _free_text()
    return Grammar(kind="lark", source="\n".join([*lines, *_bodies(tools, every=is_forced), ""]))


def _free_text() -> list[str]:
    """Text in which whatever follows the mark of a call is one."""
    return [
        "start: (head body)* TAIL",
        f"head[suffix={_literal(OPEN)}]: /(.|\\n)*/",
        f"TAIL: /(.|\\n)*/ & ~/(.|\\n)*{OPEN}(.|\\n)*/",
    ]


def _bodies(tools: Sequence[Tool], *, every: bool) -> list[str]:
    """The rest of a call after its mark.

    Args:
        every: Whether the arguments of tools that are not `strict` match their schema, too.
    """
    names = [f"call{at}" for at in range(len(tools))]
    end = _literal("}\n" + CLOSE)
    lines = [f"body: ({' | '.join(names)}) {end}"]
    for name, tool in zip(names, tools, strict=True):
        start = f'\n{{"name": {json.dumps(tool.name)}, "arguments": '
        schema = tool.parameters if every or tool.strict else _ANY_ARGUMENTS
        lines.append(f"{name}: {_literal(start)} arguments{name}")
        lines.append(f"arguments{name}: %json {_spaced(schema)}")
    return lines


def _literal(text: str) -> str:
    return json.dumps(text)


def _spaced(schema: Mapping[str, Any]) -> str:
    return json.dumps({**schema, **_SPACING})
