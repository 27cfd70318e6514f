"""The Responses format: `POST /v1/responses`, whole or as server-sent events.

Fields that cannot change the text are taken and ignored: `IGNORED`. Fields that would, and
are not implemented, are refused by name: `NOT_IMPLEMENTED`, with the values that are neutral.
Nothing is stored: a response cannot be fetched later or named by `previous_response_id`.

Source: OpenAI API reference, "Responses" and "Responses: streaming events".
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .chat import ChatRequest, Message
from .errors import ApiError, openai_error, shortened
from .events import EndReason, Finished, Started, TextDelta
from .fields import Bounds, Fields, Neutral, TextBlocks, read_object
from .wire import Answer, StreamWriter, encode, sse

__all__ = [
    "BOUNDS",
    "IGNORED",
    "INPUT_TEXT",
    "MESSAGE_FIELDS",
    "NOT_IMPLEMENTED",
    "OPTIONS",
    "OUTPUT_TEXT",
    "ROLES",
    "OpenAIResponses",
    "read_request",
]

IGNORED = (
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "user",
)

NOT_IMPLEMENTED: Neutral = {
    "access_programs": (),
    "background": (False,),
    "background_options": (),
    "context_management": ([],),
    "conversation": (),
    "image": (),
    "include": ([], ["reasoning.encrypted_content"]),
    "moderation": (),
    "previous_response_id": (),
    "prompt": (),
    "store": (False,),
    "tool_choice": ("auto", "none"),
    "tools": ([],),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}

BOUNDS: dict[str, Bounds] = {
    "max_output_tokens": Bounds(1),
    "temperature": Bounds(0, 2),
    "top_p": Bounds(0, 1),
}

OPTIONS: dict[str, tuple[tuple[str, ...], Neutral]] = {
    "prompt_cache_options": (
        ("mode", "ttl"),
        {"comparison_response_id": (), "prewarm": (False,)},
    ),
    "reasoning": (
        (),
        {
            "context": ("auto",),
            "effort": ("none",),
            "generate_summary": (),
            "mode": ("standard",),
            "summary": (),
        },
    ),
    "stream_options": (("include_obfuscation",), {}),
    "text": ((), {"format": ({"type": "text"},), "verbosity": ("medium",)}),
}
"""Objects whose fields are ignored, or not implemented with these neutral values."""

_KNOWN = (
    "input",
    "instructions",
    "max_output_tokens",
    "model",
    "stream",
    "temperature",
    "top_p",
    *IGNORED,
    *OPTIONS,
)

MESSAGE_FIELDS: Neutral = {"phase": ()}
_PARTS = ("computer_screenshot", "input_audio", "input_file", "input_image", "refusal")
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_MARK = "prompt_cache_breakpoint"
INPUT_TEXT = TextBlocks("input_text", _MARK, {})
OUTPUT_TEXT = TextBlocks("output_text", _MARK, {"annotations": ([],), "logprobs": ([],)})
_CUT: tuple[EndReason, ...] = ("length", "context")


def read_request(body: bytes) -> ChatRequest:
    """Check the body of `/v1/responses`.

    Raises:
        ApiError: What is wrong with it.
    """
    fields = read_object(body)
    fields.check(_KNOWN, neutral=NOT_IMPLEMENTED)
    _check_options(fields)
    instructions = fields.text("instructions")
    messages = _messages(fields)
    if instructions:
        messages.insert(0, {"role": "system", "content": instructions})
    return ChatRequest(
        model=fields.required("model", fields.text("model")),
        messages=messages,
        max_tokens=fields.integer("max_output_tokens", BOUNDS["max_output_tokens"]),
        temperature=fields.number("temperature", BOUNDS["temperature"], default=1.0),
        top_p=fields.number("top_p", BOUNDS["top_p"], default=1.0),
        stream=fields.flag("stream"),
        instructions=instructions,
        messages_field="input",
    )


def _check_options(fields: Fields) -> None:
    """Refuse what stands inside of options and is not implemented."""
    for name, (known, neutral) in OPTIONS.items():
        if (options := fields.object(name)) is not None:
            options.check(known, neutral=neutral)
    if fields.value("stream_options") is not None and not fields.flag("stream"):
        raise fields.wrong("stream_options", "is only for stream; set stream or leave it out")


def _messages(fields: Fields) -> list[Message]:
    value = fields.required("input", fields.value("input"))
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items = fields.objects("input")
    if not items:
        raise fields.wrong("input", "must hold at least one message")
    return [_message(item) for item in items]


def _message(item: Fields) -> Message:
    kind = item.text("type") or "message"
    if kind != "message":
        raise item.wrong(
            "type", f"{shortened(kind)!r} is not implemented by this server; send messages"
        )
    role = item.required("role", item.text("role"))
    if role not in ROLES:
        raise item.wrong("role", f"must be one of {', '.join(ROLES)}, not {shortened(role)!r}")
    item.check(("id", "type", "status", "role", "content"), neutral=MESSAGE_FIELDS)
    text = OUTPUT_TEXT if role == "assistant" else INPUT_TEXT
    content = item.required("content", item.content("content", refused=_PARTS, text=text))
    return {"role": ROLES[role], "content": content}


def _usage(started: Started, output_tokens: int) -> dict[str, object]:
    """Counts; `input_tokens` has cached ones in it."""
    return {
        "input_tokens": started.input_tokens,
        "input_tokens_details": {"cached_tokens": started.cache_read, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": started.input_tokens + output_tokens,
    }


class OpenAIResponses:
    """The format as the front uses it.

    Args:
        now: Unix seconds, for `created_at`.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def read(self, body: bytes) -> ChatRequest:
        return read_request(body)

    def reply(self, answer: Answer, request: ChatRequest, request_id: str) -> bytes:
        response = _Response(request, request_id, created_at=int(self._now()))
        return encode(response.ended(answer.started, answer.finished, answer.text))

    def writer(self, request: ChatRequest, request_id: str) -> StreamWriter:
        return _Writer(_Response(request, request_id, created_at=int(self._now())))


class _Response:
    """One response, as it stands at each point of its life."""

    def __init__(self, request: ChatRequest, request_id: str, *, created_at: int) -> None:
        self._request = request
        self._id = request_id.replace("req_", "resp_", 1)
        self.item_id = request_id.replace("req_", "msg_", 1)
        self._created_at = created_at

    def in_progress(self) -> dict[str, object]:
        return self._fields("in_progress")

    def ended(self, started: Started, finished: Finished, text: str) -> dict[str, object]:
        status = _status(finished)
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return self._fields(
            status,
            incomplete_details=details,
            output=[self.item(status, text)],
            usage=_usage(started, finished.output_tokens),
        )

    def failed(self, error: ApiError, text: str | None) -> dict[str, object]:
        """Args: text: What had come; `None` before anything had."""
        described = openai_error(error)
        described["code"] = described["code"] or described["type"]
        output = [] if text is None else [self.item("incomplete", text)]
        return self._fields("failed", error=described, output=output)

    def item(self, status: str, text: str | None) -> dict[str, object]:
        """The one message of the output; without its part when `text` is `None`."""
        return {
            "id": self.item_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [] if text is None else [_part(text)],
        }

    def _fields(self, status: str, **known: object) -> dict[str, object]:
        request = self._request
        fields: dict[str, object] = {
            "id": self._id,
            "object": "response",
            "created_at": self._created_at,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_tokens,
            "max_tool_calls": None,
            "metadata": {},
            "model": request.model,
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": request.temperature,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": 0,
            "top_p": request.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": None,
        }
        return fields | known


class _Writer:
    """The response's start, one message with one part of text, the response's end.

    Every event is numbered from 0, without a gap.
    """

    def __init__(self, response: _Response) -> None:
        self._response = response
        self._num_events = 0
        self._started: Started | None = None
        self._finished = Finished("stop", 0)
        self._pieces: list[str] = []
        self._place = {"item_id": response.item_id, "output_index": 0, "content_index": 0}

    def started(self, event: Started) -> bytes:
        self._started = event
        item = self._response.item("in_progress", None)
        return (
            self._opening()
            + self._event("response.output_item.added", output_index=0, item=item)
            + self._event("response.content_part.added", **self._place, part=_part(""))
        )

    def text(self, event: TextDelta) -> bytes:
        self._pieces.append(event.text)
        return self._event(
            "response.output_text.delta", **self._place, delta=event.text, logprobs=[]
        )

    def finished(self, event: Finished) -> bytes:
        self._finished = event
        text, place = "".join(self._pieces), self._place
        item = self._response.item(_status(event), text)
        return (
            self._event("response.output_text.done", **place, text=text, logprobs=[])
            + self._event("response.content_part.done", **place, part=_part(text))
            + self._event("response.output_item.done", output_index=0, item=item)
        )

    def end(self) -> bytes:
        assert self._started is not None
        text = "".join(self._pieces)
        response = self._response.ended(self._started, self._finished, text)
        return self._event(f"response.{_status(self._finished)}", response=response)

    def failed(self, error: ApiError) -> bytes:
        # A stream whose headers left before anything came has not begun yet.
        opening = b"" if self._num_events else self._opening()
        text = None if self._started is None else "".join(self._pieces)
        response = self._response.failed(error, text)
        return opening + self._event("response.failed", response=response)

    def ping(self) -> bytes:
        return b": ping\n\n"

    def _opening(self) -> bytes:
        response = self._response.in_progress()
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def _event(self, name: str, **fields: object) -> bytes:
        head = {"type": name, "sequence_number": self._num_events}
        self._num_events += 1
        return sse(encode(head | fields), event=name)


def _part(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _status(finished: Finished) -> str:
    return "incomplete" if finished.reason in _CUT else "completed"
