"""What a Messages request is made of.

Source: platform.claude.com, "Token counting" (a system prompt and a message of seven words
together are 14) and "Tool use", the tokens of the prompt that tools bring with them. Dated
November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .attachments import add_file, add_image
from .encodings import claude_version
from .tally import FLAT, NESTED, PERHAPS, Tally, add_content, listed, plain

__all__ = ["add_messages", "tool_prompt"]

_MESSAGE, _PRIMER = 3, 2
_SPREAD = (0.4, 1.0)  # of these overheads, which nobody documents
_BLOCK = 6  # around a tool's name, input or result

# What tools bring with them, for `tool_choice` auto or none, and for any or a named one.
_TOOL_PROMPTS = {
    ("opus", 5.0): (286, 406),
    ("sonnet", 5.0): (354, 474),
    ("opus", 4.7): (675, 804),
}
_OLD_TOOL_PROMPT, _NEW_TOOL_PROMPT = (346, 313), (350, 470)


def add_messages(tally: Tally, payload: Mapping[str, Any]) -> None:
    """Count the system prompt, the messages and the tools of `payload`."""
    system = payload.get("system")
    if system:
        tally.add(1, _SPREAD)
        add_content(tally, system, "system", _block)
    for number, message in enumerate(listed(payload.get("messages"))):
        message = plain(message)
        tally.add(_MESSAGE, _SPREAD)
        if isinstance(message, Mapping):
            add_content(tally, message.get("content"), f"messages[{number}].content", _block)
        else:
            tally.text(message)
    tally.add(_PRIMER, _SPREAD)
    _tools(tally, payload)
    wanted = plain(payload.get("output_config"))
    if isinstance(wanted, Mapping) and wanted.get("format"):
        tally.text(wanted["format"], NESTED)


def tool_prompt(name: str, choice: str) -> tuple[int, bool]:
    """Tokens of the prompt that comes with tools, and whether they are told for the model."""
    version = claude_version(name)
    column = 1 if choice in ("any", "tool") else 0
    if version in _TOOL_PROMPTS:
        return _TOOL_PROMPTS[version][column], True
    is_old = version is not None and version[1] < 4.7
    return (_OLD_TOOL_PROMPT if is_old else _NEW_TOOL_PROMPT)[column], is_old


def _tools(tally: Tally, payload: Mapping[str, Any]) -> None:
    tools = [plain(tool) for tool in listed(payload.get("tools"))]
    if not tools:
        return
    tally.has_tools = True
    chosen = plain(payload.get("tool_choice"))
    choice = chosen.get("type", "auto") if isinstance(chosen, Mapping) else "auto"
    prompt, is_told = tool_prompt(tally.name, choice)
    tally.add(prompt, FLAT if is_told else (0.3, 1.0))
    for number, tool in enumerate(tools):
        if isinstance(tool, Mapping) and "input_schema" not in tool:
            tally.guess(100.0, 500.0, 2500.0, f"tools[{number}]")  # one that the provider defines
            continue
        shown = tool
        if isinstance(tool, Mapping):
            shown = {name: value for name, value in tool.items() if name != "cache_control"}
        tally.text(shown, NESTED)


def _block(tally: Tally, block: Any, path: str) -> None:
    kind = block.get("type") if isinstance(block, Mapping) else None
    match kind:
        case "text":
            tally.text(block.get("text"))
        case "image":
            source = plain(block.get("source"))
            data = source.get("data") if isinstance(source, Mapping) else None
            add_image(tally, data, path)
        case "document":
            _document(tally, block, path)
        case "tool_use":
            tally.has_tools = True
            tally.add(_BLOCK, NESTED)
            tally.text(block.get("name"), NESTED)
            tally.text(block.get("input"), NESTED)
        case "tool_result":
            tally.has_tools = True
            tally.add(_BLOCK, NESTED)
            add_content(tally, block.get("content"), f"{path}.content", _block)
        case "thinking":
            tally.text(block.get("thinking"), PERHAPS)
        case "redacted_thinking":
            sealed = len(str(block.get("data", "")))
            tally.guess(0.0, sealed / 8, sealed / 4, path)
        case _:
            tally.text(block, NESTED)


def _document(tally: Tally, block: Mapping[str, Any], path: str) -> None:
    source = plain(block.get("source"))
    source = source if isinstance(source, Mapping) else {}
    for name in ("title", "context"):
        tally.text(block.get(name))
    if source.get("type") == "text":
        tally.text(source.get("data"), NESTED)
    elif source.get("type") == "content":
        add_content(tally, source.get("content"), f"{path}.source.content", _block)
    else:
        add_file(tally, source.get("data"), path)
