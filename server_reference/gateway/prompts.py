"""Make the prompt of a request, with its tools, for one model.

Tools go through the model's own chat template where that writes calls as this server reads
them (`tool_text.py`). Elsewhere a system text describes them, calls stand in the assistant's
text, and results in the user's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..api.chat import ChatRequest, Message, Tool
from ..api.errors import ApiError
from ..checkpoints.registry import FrontModel
from ..text.chat_template import ChatTemplateError
from .tool_text import CLOSE, OPEN
from .validation import check_length, size_of

__all__ = ["Prompts", "with_tools"]

# Beyond this many characters or messages, tokenizing would hold up the other streams noticeably.
_LONG_TEXT = 4096
_MANY_MESSAGES = 64

_RESULT = "<tool_response>\n{}\n</tool_response>"
_DESCRIBED = """\
Functions that you can call, one per line, with JSON schemas of their arguments:
<tools>
{tools}
</tools>
To call one, write its name and arguments as a JSON object in this form:
{open}
{{"name": "...", "arguments": {{...}}}}
{close}
Its result follows in the form <tool_response>...</tool_response>."""

_A_TOOL = Tool(name="f", parameters={"type": "object", "properties": {}})
_A_CALL: list[Message] = [
    {"role": "user", "content": "x"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {}}}],
    },
    {"role": "tool", "tool_call_id": "1", "name": "f", "content": "y"},
]


class Prompts:
    """Turns requests into token ids."""

    def __init__(self, model: FrontModel) -> None:
        self._model = model
        self._is_template_enough = _writes_calls(model)

    async def encode(self, request: ChatRequest) -> list[int]:
        """The prompt's token ids; a long one is made in a thread.

        Raises:
            ApiError: It has more tokens than the model's context, whatever they are, or the
                model's template refuses the messages.
        """
        try:
            return await self._encode_if_fits(request)
        except (ChatTemplateError, RecursionError) as error:
            why = str(error) if isinstance(error, ChatTemplateError) else "it is nested too deep"
            raise ApiError("invalid", why, param=request.messages_field) from error

    async def _encode_if_fits(self, request: ChatRequest) -> list[int]:
        size = size_of(request)
        check_length(
            request,
            size,
            longest_token=self._model.tokenizer.longest_token,
            max_context=self._model.max_context,
        )
        if size < _LONG_TEXT and len(request.messages) < _MANY_MESSAGES:
            return self._encode(request)
        return await asyncio.to_thread(self._encode, request)

    def _encode(self, request: ChatRequest) -> list[int]:
        tokenizer, template = self._model.tokenizer, self._model.chat_template
        tools = () if request.tool_choice.mode == "none" else request.tools
        if tools and self._is_template_enough:
            shown = [_shown(tool) for tool in tools]
            prompt = template.encode(tokenizer, request.messages, tools=shown)
        elif self._is_template_enough:
            prompt = template.encode(tokenizer, request.messages)
        else:
            prompt = template.encode(tokenizer, with_tools(request.messages, tools))
        return prompt + tokenizer.encode(request.prefill)


def _writes_calls(model: FrontModel) -> bool:
    """Whether the model's template takes tools, and writes calls as this server reads them."""
    template, tokenizer = model.chat_template, model.tokenizer
    if not template.takes_tools:
        return False
    try:
        prompt = template.encode(tokenizer, _A_CALL, tools=[_shown(_A_TOOL)])
    except (ChatTemplateError, RecursionError):  # of a macro that calls itself
        return False
    return OPEN.encode() in b"".join(map(tokenizer.token_bytes, prompt))


def _shown(tool: Tool) -> dict[str, Any]:
    """A tool as chat templates read it."""
    function = {"name": tool.name, "description": tool.description or ""}
    return {"type": "function", "function": function | {"parameters": dict(tool.parameters)}}


def with_tools(messages: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
    """The conversation for a template that knows nothing of tools: all of it is text."""
    plain = [_plain(message) for message in messages]
    if not tools:
        return plain
    listed = "\n".join(json.dumps(_shown(tool), ensure_ascii=False) for tool in tools)
    text = _DESCRIBED.format(tools=listed, open=OPEN, close=CLOSE)
    if plain[0]["role"] != "system":
        return [{"role": "system", "content": text}, *plain]
    return [{"role": "system", "content": f"{plain[0]['content']}\n\n{text}"}, *plain[1:]]


def _plain(message: Message) -> Message:
    content = message["content"]
    if message["role"] == "tool":
        return {"role": "user", "content": _RESULT.format(content)}
    calls = [_written(call["function"]) for call in message.get("tool_calls", ())]
    if content or not calls:
        calls.insert(0, content)
    return {"role": message["role"], "content": "\n".join(calls)}


def _written(function: Mapping[str, Any]) -> str:
    called = {"name": function["name"], "arguments": function["arguments"]}
    return f"{OPEN}\n{json.dumps(called, ensure_ascii=False)}\n{CLOSE}"
