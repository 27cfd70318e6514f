"""Tools as the Messages format writes them: definitions, choices, calls and results.

Source: Anthropic API reference, "Messages"; "Tool use" guide.
"""

from __future__ import annotations

from collections.abc import Iterable

from .chat import Message, Tool, ToolChoice
from .fields import Fields, Neutral, TextBlocks
from .tools import call, check_choice, read_name, read_tool, unique

__all__ = [
    "CALL_NOT_IMPLEMENTED",
    "CHOICES",
    "RESULT_NOT_IMPLEMENTED",
    "TOOL_FIELDS",
    "TOOL_IGNORED",
    "TOOL_NOT_IMPLEMENTED",
    "read_choice",
    "read_results",
    "read_tools",
    "read_turn_with_calls",
]

TOOL_FIELDS = ("description", "input_schema", "name", "strict")
TOOL_IGNORED = ("cache_control", "eager_input_streaming")
TOOL_NOT_IMPLEMENTED: Neutral = {
    "allowed_callers": (["direct"],),
    "defer_loading": (False,),
    "input_examples": ([],),
    "type": ("custom",),
}
CHOICES = ("auto", "any", "tool", "none")
CALL_NOT_IMPLEMENTED: Neutral = {"caller": ({"type": "direct"},), "toolset_name": ()}
RESULT_NOT_IMPLEMENTED: Neutral = {"toolset_name": ()}


def read_tools(fields: Fields) -> tuple[Tool, ...]:
    """The field `tools`.

    Raises:
        ApiError: What is wrong with it.
    """
    return unique(map(_tool, fields.objects("tools") or []), fields)


def _tool(fields: Fields) -> Tool:
    fields.check((*TOOL_FIELDS, *TOOL_IGNORED), neutral=TOOL_NOT_IMPLEMENTED)
    fields.required("input_schema", fields.value("input_schema"))
    return read_tool(fields, schema="input_schema")


def read_choice(fields: Fields, tools: tuple[Tool, ...]) -> ToolChoice:
    """The field `tool_choice`; a named tool is called once.

    Raises:
        ApiError: What is wrong with it.
    """
    given = fields.object("tool_choice")
    if given is None:
        return ToolChoice()
    kind = given.one_of("type", CHOICES)
    known = ["type", *(["name"] if kind == "tool" else [])]
    if kind != "none":
        known.append("disable_parallel_tool_use")
    given.check(known, neutral={})
    parallel = not given.flag("disable_parallel_tool_use")
    match kind:
        case "none":
            choice = ToolChoice(mode="none")
        case "any":
            choice = ToolChoice(mode="required", parallel=parallel)
        case "tool":
            choice = ToolChoice(mode="required", names=(read_name(given),), parallel=False)
        case _:
            choice = ToolChoice(parallel=parallel)
    return check_choice(choice, tools, fields)


def read_results(turn: Fields, text: TextBlocks, *, refused: Iterable[str]) -> list[Message]:
    """A user's turn of blocks: the results of calls, then what the user says.

    Raises:
        ApiError: What is wrong with it.
    """
    messages: list[Message] = []
    texts = []
    for block in turn.blocks("content"):
        if block.text("type") != "tool_result":
            texts.append(block.text_block((*refused, "tool_use"), text))
        elif texts:
            raise block.wrong("type", "'tool_result' must come before the turn's text")
        else:
            messages.append(_result(block, text, refused=refused))
    if texts or not messages:
        messages.append({"role": "user", "content": "\n".join(texts)})
    return messages


def _result(block: Fields, text: TextBlocks, *, refused: Iterable[str]) -> Message:
    block.check(
        ("type", "tool_use_id", "content", "is_error", *text.ignored),
        neutral=RESULT_NOT_IMPLEMENTED,
    )
    content = block.content("content", refused=(*refused, "tool_reference"), text=text) or ""
    return {
        "role": "tool",
        "tool_call_id": block.required("tool_use_id", block.text("tool_use_id")),
        "content": f"Error: {content}" if block.flag("is_error") else content,
    }


def read_turn_with_calls(
    turn: Fields, text: TextBlocks, *, refused: Iterable[str]
) -> list[Message]:
    """An assistant's turn of blocks: one message.

    Raises:
        ApiError: What is wrong with it.
    """
    texts, calls = [], []
    for block in turn.blocks("content"):
        if block.text("type") != "tool_use":
            texts.append(block.text_block((*refused, "tool_result"), text))
            continue
        block.check(("type", "id", "name", "input", *text.ignored), neutral=CALL_NOT_IMPLEMENTED)
        calls.append(
            call(
                block.required("id", block.text("id")),
                block.required("name", block.text("name")),
                block.required("input", block.mapping("input")),
            )
        )
    message: Message = {"role": "assistant", "content": "\n".join(texts)}
    return [message | {"tool_calls": calls} if calls else message]
