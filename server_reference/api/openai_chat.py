"""The Chat Completions format: `POST /v1/chat/completions`, whole or as server-sent events.

Fields that cannot change the text are taken and ignored: `IGNORED`. Fields that would, and
are not implemented, are refused by name: `NOT_IMPLEMENTED`, with the values that are neutral.

Some fields are taken that OpenAI's own API does not have, under the names that servers of open
models gave them: `EXTRAS`.

Source: OpenAI API reference, "Chat completions" and "Chat completion chunks".
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .chat import ChatRequest, Message
from .errors import shortened
from .fields import VOCABULARY, Bounds, Fields, Neutral, TextBlocks, read_object
from .openai_chat_replies import ChatWriter, head, whole
from .openai_tools import read_arguments, read_choice, read_format, read_tools
from .tools import call, check_results
from .wire import Answer, StreamWriter, encode

__all__ = [
    "BIAS",
    "BOUNDS",
    "EXTRAS",
    "IGNORED",
    "LIMITS",
    "MESSAGE_FIELDS",
    "MOST_BIASES",
    "NOT_IMPLEMENTED",
    "ROLES",
    "STREAM_OPTIONS",
    "TEXT",
    "OpenAIChat",
    "read_request",
]

IGNORED = (
    "metadata",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
)

NOT_IMPLEMENTED: Neutral = {
    "audio": (),
    "function_call": (),
    "functions": ([],),
    "modalities": (["text"],),
    "moderation": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
}

BOUNDS: dict[str, Bounds] = {
    "frequency_penalty": Bounds(-2, 2),
    "max_completion_tokens": Bounds(1),
    "max_tokens": Bounds(1),
    "min_p": Bounds(0, 1),
    "min_tokens": Bounds(0),
    "n": Bounds(1, 128),
    "presence_penalty": Bounds(-2, 2),
    "prompt_logprobs": Bounds(0, 20),
    "repetition_penalty": Bounds(0.01, 100),
    "seed": Bounds(-(2**63), 2**63 - 1),
    "temperature": Bounds(0, 2),
    "top_k": Bounds(0, 2**31 - 1),
    "top_logprobs": Bounds(0, 20),
    "top_p": Bounds(0, 1),
}
EXTRAS = (
    "ignore_eos",
    "min_p",
    "min_tokens",
    "prompt_logprobs",
    "repetition_penalty",
    "stop_token_ids",
    "top_k",
)
LIMITS = ("max_completion_tokens", "max_tokens")
"""The newer name and the older one, of which a request gives one."""
BIAS = Bounds(-100, 100)
MOST_BIASES = 1024
STREAM_OPTIONS = ("include_usage", "include_obfuscation")
TEXT = TextBlocks("text", ("cache_control",), {"citations": ([],)})

_KNOWN = (
    "logit_bias",
    "logprobs",
    "messages",
    "model",
    "parallel_tool_calls",
    "response_format",
    "stop",
    "stream",
    "stream_options",
    "tool_choice",
    "tools",
    *(name for name in EXTRAS if name not in BOUNDS),
    *BOUNDS,
    *IGNORED,
)
MESSAGE_FIELDS: Neutral = {
    "annotations": ([],),
    "audio": (),
    "function_call": (),
    "name": (),
    "refusal": (),
    "tool_call_id": (),
    "tool_calls": ([],),
}
_BESIDE_CALLS = {name: one for name, one in MESSAGE_FIELDS.items() if name != "tool_calls"}
_PARTS = ("file", "image_url", "input_audio", "refusal")
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read_request(body: bytes) -> ChatRequest:
    """Check the body of `/v1/chat/completions`.

    Raises:
        ApiError: What is wrong with it.
    """
    fields = read_object(body)
    fields.check(_KNOWN, neutral=NOT_IMPLEMENTED)
    stream = fields.flag("stream")
    format = fields.object("response_format")
    tools = read_tools(fields, nested=True)
    max_tokens = _max_tokens(fields)
    return ChatRequest(
        model=fields.required("model", fields.text("model")),
        messages=_messages(fields),
        max_tokens=max_tokens,
        temperature=fields.number("temperature", BOUNDS["temperature"], default=1.0),
        top_p=fields.number("top_p", BOUNDS["top_p"], default=1.0),
        top_k=fields.integer("top_k", BOUNDS["top_k"]) or None,
        min_p=fields.number("min_p", BOUNDS["min_p"], default=0.0),
        repetition_penalty=_penalty(fields, "repetition", default=1.0),
        frequency_penalty=_penalty(fields, "frequency", default=0.0),
        presence_penalty=_penalty(fields, "presence", default=0.0),
        logit_bias=_logit_bias(fields),
        seed=fields.integer("seed", BOUNDS["seed"]),
        stop=fields.stops("stop", or_one=True),
        stop_token_ids=_token_ids(fields, "stop_token_ids"),
        min_tokens=_min_tokens(fields, max_tokens),
        ignore_eos=fields.flag("ignore_eos"),
        logprobs=_logprobs(fields),
        prompt_logprobs=_prompt_logprobs(fields, stream=stream),
        tools=tools,
        tool_choice=read_choice(fields, tools, nested=True),
        output_schema=None if format is None else read_format(format, nested=True),
        output_field="response_format",
        n=fields.integer("n", BOUNDS["n"]) or 1,
        stream=stream,
        include_usage=_include_usage(fields, stream=stream),
    )


def _max_tokens(fields: Fields) -> int | None:
    newer, older = (fields.integer(name, BOUNDS[name]) for name in LIMITS)
    if newer is not None and older is not None:
        raise fields.wrong("max_tokens", "may not stand beside max_completion_tokens; give one")
    return older if newer is None else newer


def _min_tokens(fields: Fields, max_tokens: int | None) -> int:
    least = fields.integer("min_tokens", BOUNDS["min_tokens"]) or 0
    if max_tokens is not None and least > max_tokens:
        raise fields.wrong("min_tokens", f"may be at most max_tokens, {max_tokens}, not {least}")
    return least


def _penalty(fields: Fields, kind: str, *, default: float) -> float:
    name = f"{kind}_penalty"
    return fields.number(name, BOUNDS[name], default=default)


def _logprobs(fields: Fields) -> int | None:
    """How many of the likeliest are told; `None`: nothing is."""
    top = fields.integer("top_logprobs", BOUNDS["top_logprobs"])
    if fields.flag("logprobs"):
        return top or 0
    if top:
        raise fields.wrong("top_logprobs", "is only for logprobs; set logprobs or leave it out")
    return None


def _prompt_logprobs(fields: Fields, *, stream: bool) -> int | None:
    asked = fields.integer("prompt_logprobs", BOUNDS["prompt_logprobs"])
    if asked is not None and stream:
        raise fields.wrong("prompt_logprobs", "is only for whole replies; leave stream out")
    return asked


def _logit_bias(fields: Fields) -> tuple[tuple[int, float], ...]:
    biases = fields.object("logit_bias")
    given = fields.mapping("logit_bias")
    if biases is None or given is None:
        return ()
    if len(given) > MOST_BIASES:
        raise fields.wrong("logit_bias", f"may hold {MOST_BIASES:,} tokens, not {len(given):,}")
    for name in given:
        # `int` takes digits of every script, signs and spaces too.
        if not (name.isascii() and name.isdecimal() and len(name) < 11):
            raise fields.wrong("logit_bias", f"must name tokens by id, not {shortened(name)!r}")
    return tuple((int(name), biases.number(name, BIAS, default=0.0)) for name in given)


def _token_ids(fields: Fields, name: str) -> tuple[int, ...]:
    ids = fields.items(name) or []
    for one in ids:
        if type(one) is not int or one not in VOCABULARY:
            raise fields.wrong(name, "must be an array of token ids")
    return tuple(one for one in ids if isinstance(one, int))


def _include_usage(fields: Fields, *, stream: bool) -> bool:
    options = fields.object("stream_options")
    if options is None:
        return False
    if not stream:
        raise fields.wrong("stream_options", "is only for stream; set stream or leave it out")
    options.check(STREAM_OPTIONS, neutral={})
    return options.flag("include_usage")


def _messages(fields: Fields) -> list[Message]:
    turns = fields.required("messages", fields.objects("messages"))
    if not turns:
        raise fields.wrong("messages", "must hold at least one message")
    messages = [_message(turn) for turn in turns]
    check_results(messages, fields, "messages")
    return messages


def _message(turn: Fields) -> Message:
    role = turn.required("role", turn.text("role"))
    match role:
        case "function":
            raise turn.wrong("role", "'function' is not implemented by this server; use 'tool'")
        case "tool":
            return _result(turn)
        case "assistant" if turn.items("tool_calls"):
            return _calls(turn)
    if role not in ROLES:
        roles = ", ".join([*ROLES, "tool"])
        raise turn.wrong("role", f"must be one of {roles}, not {shortened(role)!r}")
    turn.check(("role", "content"), neutral=MESSAGE_FIELDS)
    return {"role": ROLES[role], "content": turn.required("content", _content(turn))}


def _content(turn: Fields) -> str | None:
    return turn.content("content", refused=_PARTS, text=TEXT)


def _result(turn: Fields) -> Message:
    turn.check(("role", "content", "tool_call_id"), neutral={"name": ()})
    return {
        "role": "tool",
        "tool_call_id": turn.required("tool_call_id", turn.text("tool_call_id")),
        "content": turn.required("content", _content(turn)),
    }


def _calls(turn: Fields) -> Message:
    turn.check(("role", "content", "tool_calls"), neutral=_BESIDE_CALLS)
    calls = []
    for one in turn.objects("tool_calls") or []:
        one.check(("id", "type", "function", "index"), neutral={})
        one.one_of("type", ("function",))
        function = one.required("function", one.object("function"))
        function.check(("name", "arguments"), neutral={})
        calls.append(
            call(
                one.required("id", one.text("id")),
                function.required("name", function.text("name")),
                read_arguments(function.required("arguments", function.text("arguments"))),
            )
        )
    return {"role": "assistant", "content": _content(turn) or "", "tool_calls": calls}


class OpenAIChat:
    """The format as the front uses it.

    Args:
        now: Unix seconds, for `created`.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def read(self, body: bytes) -> ChatRequest:
        return read_request(body)

    def reply(self, answer: Answer, request: ChatRequest, request_id: str) -> bytes:
        named = head("chat.completion", request, request_id, created=int(self._now()))
        return encode(named | whole(answer, request))

    def writer(self, request: ChatRequest, request_id: str) -> StreamWriter:
        named = head("chat.completion.chunk", request, request_id, created=int(self._now()))
        return ChatWriter(named, request, request_id)
