"""What a Responses request is made of.

Its overheads are documented nowhere: those of Chat Completions stand in, with a band.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .attachments import add_audio, add_file, add_image
from .openai_chat import functions_begin
from .schemas import add_functions
from .tally import NESTED, PERHAPS, Tally, add_content, listed, plain

__all__ = ["add_responses"]

_MESSAGE, _PRIMER, _CALL = 3, 3, 8
_HOSTED = (0.0, 150.0, 1500.0)  # the definition of a tool that the provider runs
_HISTORY = (0.0, 2_000.0, 100_000.0)  # kept by the provider, however long
_ELSEWHERE = ("previous_response_id", "conversation", "prompt")


def add_responses(tally: Tally, payload: Mapping[str, Any]) -> None:
    """Count the instructions, the items, the tools and the answer's schema of `payload`."""
    given = payload.get("input")
    items = [given] if isinstance(given, str) else listed(given)
    if payload.get("instructions"):
        items = [{"role": "developer", "content": payload["instructions"]}, *items]
    for number, item in enumerate(items):
        item = {"role": "user", "content": item} if isinstance(item, str) else plain(item)
        _item(tally, item, f"input[{number}]")
    tally.add(_PRIMER)
    tally.guess(-min(2, len(items)), 0, 8 + len(items))
    _tools(tally, [plain(tool) for tool in listed(payload.get("tools"))])
    text = plain(payload.get("text"))
    wanted = text.get("format") if isinstance(text, Mapping) else None
    if isinstance(wanted, Mapping) and "schema" in wanted:
        tally.text(wanted["schema"], NESTED)
    for name in _ELSEWHERE:
        if payload.get(name):
            tally.has_files = True
            tally.guess(*_HISTORY, path=name)


def _tools(tally: Tally, tools: list[Any]) -> None:
    functions = [one for one in tools if isinstance(one, Mapping) and one.get("type") == "function"]
    add_functions(tally, functions, per_function=functions_begin(tally.name))
    for number, tool in enumerate(tools):
        if isinstance(tool, Mapping) and tool.get("type") != "function":
            tally.has_tools = True
            tally.guess(*_HOSTED, path=f"tools[{number}]")


def _item(tally: Tally, item: Any, path: str) -> None:
    kind = item.get("type", "message") if isinstance(item, Mapping) else None
    match kind:
        case "message":
            tally.add(_MESSAGE)
            tally.text(item.get("role"))
            add_content(tally, item.get("content"), f"{path}.content", _part)
        case "function_call" | "custom_tool_call":
            tally.has_tools = True
            tally.add(_CALL, NESTED)
            tally.text(item.get("name"), NESTED)
            tally.text(item.get("arguments", item.get("input")), NESTED)
        case "function_call_output" | "custom_tool_call_output":
            tally.has_tools = True
            tally.add(_CALL, NESTED)
            add_content(tally, item.get("output"), f"{path}.output", _part)
        case "reasoning":
            _reasoning(tally, item, path)
        case "item_reference":
            tally.has_files = True
            tally.guess(*_HISTORY, path=path)
        case _:
            tally.text(item, NESTED)


def _reasoning(tally: Tally, item: Mapping[str, Any], path: str) -> None:
    """Of an earlier turn: dropped, or read again from what only the provider can open."""
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str):
        tally.guess(0.0, len(sealed) / 8, len(sealed) / 4, f"{path}.encrypted_content")
    else:
        tally.text(item.get("content"), PERHAPS)


def _part(tally: Tally, part: Any, path: str) -> None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    match kind:
        case "input_text" | "output_text" | "text" | "summary_text":
            tally.text(part.get("text"))
        case "refusal":
            tally.text(part.get("refusal"))
        case "input_image":
            add_image(tally, part.get("image_url"), path, detail=part.get("detail"))
        case "input_file":
            add_file(tally, part.get("file_data"), path)
        case "input_audio":
            audio = part.get("input_audio")
            add_audio(tally, audio.get("data") if isinstance(audio, Mapping) else None, path)
        case _:
            tally.text(part, NESTED)
