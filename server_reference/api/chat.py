"""A conversation to continue, as every wire format means it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ChatRequest", "Message", "Tool", "ToolChoice"]

Message = dict[str, Any]
"""`role` (system, user, assistant or tool) and `content`, a text, as chat templates read them.

An assistant's may have `tool_calls`, each with an `id` and a `function` of `name` and
`arguments`, which are an object or, where a client sent no JSON, a text. A tool's has the
`tool_call_id` and the `name` of the call that it answers.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function of the client's that the model may call.

    Args:
        parameters: JSON schema of its arguments, an object's.
        strict: Whether its arguments must match the schema although no call is forced.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether the model calls a tool.

    Args:
        mode: `auto`: as it likes. `none`: it knows of no tool. `required`: nothing else.
        names: The tools that it may call; empty: any.
        parallel: Whether it may call more than one.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    parallel: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request, checked, in no API's words.

    What is not explained here is as in `core.SamplingParams`.

    Args:
        messages: At least one.
        prefill: Text that the answer starts with already; it is not repeated.
        max_tokens: New tokens at most; `None` is as many as the context allows.
        temperature: 0 takes the likeliest token.
        output_schema: JSON schema, as JSON, that the answer must match unless it is a call.
        output_field: The request's field that holds it, for complaints about it.
        n: Answers to make.
        include_usage: Whether a Chat Completions stream ends with a chunk of token counts.
        repeated: Fields that a Responses reply repeats.
        messages_field: The request's field that holds the messages, for complaints about them.
    """

    model: str
    messages: list[Message]
    prefill: str = ""
    max_tokens: int | None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    output_schema: str | None = None
    output_field: str | None = None
    n: int = 1
    stream: bool = False
    include_usage: bool = False
    repeated: Mapping[str, Any] | None = None
    messages_field: str = "messages"

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that the model may call."""
        names = self.tool_choice.names
        if self.tool_choice.mode == "none":
            return ()
        return tuple(tool for tool in self.tools if not names or tool.name in names)
