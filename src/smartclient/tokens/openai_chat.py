"""What a Chat Completions request is made of.

Source: openai/openai-cookbook, "How to count tokens with tiktoken", section 6: three tokens
for each message, one for a name, three that begin the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .attachments import add_audio, add_file, add_image
from .schemas import add_functions
from .tally import NESTED, Tally, add_content, listed, plain

__all__ = ["add_chat", "add_framing", "functions_begin", "is_documented"]

_MESSAGE, _NAME, _PRIMER = 3, 1, 3
_CALL = 8  # around the name and the arguments of a tool call; not documented
_DOCUMENTED = re.compile(r"(chat)?gpt-(3\.?5|4)")
_FIRST = re.compile(r"gpt-3\.?5-turbo-0301")


def add_chat(tally: Tally, payload: Mapping[str, Any]) -> None:
    """Count the messages, the functions and the answer's schema of `payload`."""
    messages = listed(payload.get("messages"))
    for number, message in enumerate(messages):
        _message(tally, plain(message), f"messages[{number}]")
    tally.add(_PRIMER)
    add_framing(tally, len(messages))
    tools = [plain(tool) for tool in listed(payload.get("tools"))]
    functions = [_function(tool) for tool in tools] + listed(payload.get("functions"))
    add_functions(tally, functions, per_function=functions_begin(tally.name))
    wanted = plain(payload.get("response_format"))
    if isinstance(wanted, Mapping) and "json_schema" in wanted:
        tally.text(wanted["json_schema"], NESTED)
    if payload.get("tool_choice") == "none":
        tally.add(1, NESTED)


def add_framing(tally: Tally, messages: int) -> None:
    """How far the overheads of a model may be from those of its forerunners."""
    if not is_documented(tally.name):
        tally.guess(-min(2, messages), 0, 8 + messages)


def is_documented(name: str) -> bool:
    """Whether the overheads of the chat format are those of the model."""
    return _DOCUMENTED.match(name) is not None


def functions_begin(name: str) -> int:
    """Tokens that each function definition begins with."""
    return 10 if re.match(r"gpt-(3|4(-|$))", name) else 7


def _message(tally: Tally, message: Any, path: str) -> None:
    if not isinstance(message, Mapping):
        tally.text(message)
        return
    is_first = _FIRST.match(tally.name) is not None
    tally.add(_MESSAGE + 1 if is_first else _MESSAGE)
    tally.text(message.get("role"))
    if message.get("name") is not None:
        tally.text(message["name"])
        tally.add(-1 if is_first else _NAME)
    add_content(tally, message.get("content"), f"{path}.content", _part)
    tally.text(message.get("refusal"))
    for call in listed(message.get("tool_calls")):
        _call(tally, _function(plain(call)))
    if isinstance(message.get("function_call"), Mapping):
        _call(tally, message["function_call"])
    if isinstance(message.get("audio"), Mapping):  # an earlier answer, known by its id
        add_audio(tally, None, f"{path}.audio")


def _part(tally: Tally, part: Any, path: str) -> None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    held = part.get(kind) if isinstance(kind, str) else None
    match kind:
        case "text" | "refusal":
            tally.text(held)
        case "image_url":
            held = held if isinstance(held, Mapping) else {"url": held}
            add_image(tally, held.get("url"), f"{path}.image_url", detail=held.get("detail"))
        case "input_audio":
            add_audio(tally, _field(held, "data"), f"{path}.input_audio")
        case "file":
            add_file(tally, _field(held, "file_data"), f"{path}.file")
        case _:
            tally.text(part, NESTED)


def _call(tally: Tally, call: Any) -> None:
    tally.add(_CALL, NESTED)
    tally.has_tools = True
    if isinstance(call, Mapping):
        tally.text(call.get("name"), NESTED)
        tally.text(call.get("arguments"), NESTED)


def _function(tool: Any) -> Any:
    """What a tool, or a call of one, holds: under `function`, or under its type's name."""
    if not isinstance(tool, Mapping):
        return tool
    return tool.get("function") or tool.get(tool.get("type") or "") or tool


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None
