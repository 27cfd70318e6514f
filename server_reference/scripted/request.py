"""A request as rules, answers and providers see it: its parts, and what they mean to an LLM API.

Source: Anthropic API reference, "Messages"; OpenAI API reference, "Chat completions" and
"Responses".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from ..credentials import redact_target

__all__ = ["Api", "Received"]

Api = Literal["anthropic.messages", "openai.chat", "openai.responses"]

_PATHS: tuple[tuple[str, Api], ...] = (
    ("/v1/messages", "anthropic.messages"),
    ("/chat/completions", "openai.chat"),
    ("/responses", "openai.responses"),
)
_ASSISTANT_ITEMS = frozenset(
    "function_call reasoning custom_tool_call computer_call file_search_call web_search_call "
    "code_interpreter_call image_generation_call mcp_call local_shell_call".split()
)


@dataclass(frozen=True, repr=False)
class Received:
    """One request.

    Attributes:
        target: Path and query, as they came.
        headers: Names in small letters, in their order.
        connection: Number of the connection that carried it, from 1.
        number: Number of the request on this server, from 1.
        attempt: Which try of the same call it is, from 1: by the client's own
            `x-stainless-retry-count`, else by how often this method, path and body came.
        received_at: Unix seconds on the server's clock.
        protocol: `http/1.1` or `h2`.
        stream_id: Number of the HTTP/2 stream; `None` for HTTP/1.1.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    connection: int = 1
    number: int = 1
    attempt: int = 1
    received_at: float = 0.0
    protocol: str = "http/1.1"
    stream_id: int | None = None

    def __repr__(self) -> str:
        """Without headers and body: they hold keys, and a failing test shows this."""
        target = redact_target(self.target)
        return f"<Received {self.number}: {self.method} {target}, {len(self.body)} bytes>"

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def reply_id(self) -> str:
        """What the id of the reply's message ends in: `msg_…`, `chatcmpl-…`, `resp_…`."""
        return f"scripted{self.number:016d}"

    def header(self, name: str) -> str | None:
        """The first value of a header, its name in small letters."""
        return next((value for key, value in self.headers if key == name), None)

    @cached_property
    def call_key(self) -> str:
        """The same for every try of the same call: from the method, the path and the body."""
        seen = hashlib.blake2b(f"{self.method} {self.target}\0".encode(), digest_size=16)
        seen.update(self.body)
        return seen.hexdigest()

    @cached_property
    def json(self) -> Any:
        """The body as JSON; `None` when it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The body as a JSON object; empty when it is none."""
        return self.json if isinstance(self.json, dict) else {}

    @cached_property
    def api(self) -> Api | None:
        """The wire format that is spoken; `None` for any other endpoint."""
        if self.method != "POST":
            return None
        path = self.path
        return next((api for end, api in _PATHS if path.endswith(end)), None)

    @cached_property
    def model(self) -> str | None:
        model = self.fields.get("model")
        return model if isinstance(model, str) else None

    @cached_property
    def is_stream(self) -> bool:
        return self.fields.get("stream") is True

    @cached_property
    def system(self) -> str | None:
        """The instructions before the conversation, joined by line ends; `None` without any."""
        key = "instructions" if self.api == "openai.responses" else "system"
        parts = [_text(self.fields.get(key))]
        if self.api != "anthropic.messages":
            roles = ("system", "developer")
            parts += [_text(one.get("content")) for one in self.turns if one.get("role") in roles]
        return "\n".join(filter(None, parts)) or None

    @cached_property
    def turns(self) -> Sequence[Mapping[str, Any]]:
        """Messages, or for Responses the items of `input`, those that are objects."""
        turns = self.fields.get("input" if self.api == "openai.responses" else "messages")
        if isinstance(turns, str):
            return [{"role": "user", "content": turns}]
        return [one for one in turns if isinstance(one, dict)] if isinstance(turns, list) else []

    @cached_property
    def last_user_text(self) -> str | None:
        """Text of the last user message that holds any; `None` without one."""
        users = (one for one in reversed(self.turns) if one.get("role") == "user")
        return next(filter(None, (_text(one.get("content")) for one in users)), None)

    @cached_property
    def has_tool_result(self) -> bool:
        """Whether the newest turn, what came after the assistant's last, holds a tool result."""
        return any(_is_tool_result(one) for one in self._newest())

    @cached_property
    def turn(self) -> int:
        """Which turn of the conversation the client asks for, from 1."""
        turns = self.turns
        ends = [
            number
            for number, one in enumerate(turns)
            if _is_assistant(one) and not _is_assistant(_at(turns, number + 1))
        ]
        return 1 + sum(number + 1 < len(turns) for number in ends)

    def _newest(self) -> Iterator[Mapping[str, Any]]:
        for one in reversed(self.turns):
            if _is_assistant(one):
                return
            yield one


def _at(turns: Sequence[Mapping[str, Any]], number: int) -> Mapping[str, Any]:
    return turns[number] if number < len(turns) else {}


def _is_assistant(turn: Mapping[str, Any]) -> bool:
    return turn.get("role") == "assistant" or str(turn.get("type")) in _ASSISTANT_ITEMS


def _is_tool_result(turn: Mapping[str, Any]) -> bool:
    if turn.get("role") == "tool" or str(turn.get("type")).endswith("_call_output"):
        return True
    content = turn.get("content")
    blocks = content if isinstance(content, list) else []
    return any(isinstance(one, dict) and one.get("type") == "tool_result" for one in blocks)


def _text(content: Any) -> str:
    """The text of a message's content: a string, or the text blocks of a list."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [one.get("text") for one in blocks if isinstance(one, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
