"""An answer and the request it answers, as the script that plays it.

What does not change from call to call is put into bytes once: ids and times are filled in.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import ModuleType
from typing import Any

from . import compile_anthropic, compile_chat, compile_responses
from .answers import Answer, ErrorAnswer, Usage
from .compile_errors import error_fields, id_header
from .compile_parts import Event, Facts, argument_pieces, encode, pieces
from .ops import Body, End, Head, Op, Wait
from .request import Api, Received
from .timing import duration, unsplit, writes

__all__ = ["Compiler", "NoFormatError", "error_reply", "estimate", "json_reply"]

_FORMATS: Mapping[Api, ModuleType] = {
    "anthropic.messages": compile_anthropic,
    "openai.chat": compile_chat,
    "openai.responses": compile_responses,
}
_JSON = ("content-type", "application/json")
_STREAM = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
_KEPT = 256
_Fields = Sequence[tuple[str, str]]


class NoFormatError(ValueError):
    """An answer was asked for where no LLM API is spoken; the message says what to give."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """An answer's events with the ids and times of nobody; the answer keeps its key valid."""

    answer: Answer
    events: tuple[Event, ...]
    joined: bytes


class Compiler:
    """Puts answers into the wire format of the request.

    Args:
        seed: Of the jitter; the same seed and request number wait alike.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self._seed = seed
        self._kept: OrderedDict[tuple[object, ...], _Compiled] = OrderedDict()
        # In place of what differs: as long as the real ones, and in nobody's text.
        self._id = secrets.token_hex(12)
        self._created = secrets.randbelow(10**9) + 9 * 10**9

    def answer(
        self,
        answer: Answer,
        received: Received,
        *,
        usage: Usage | None = None,
        headers: _Fields = (),
        event_by_event: bool = False,
    ) -> list[Op]:
        """The script that plays `answer`.

        Args:
            usage: What the call uses, if the answer does not say.
            headers: Further headers.
            event_by_event: Whether each event is a write of its own, for a fault to break.

        Raises:
            NoFormatError: The request speaks no API that has answers.
        """
        if received.api is None:
            raise NoFormatError(
                f"{received.method} {received.path} is no endpoint with an answer's format; "
                "answer it with an ErrorAnswer, json_reply(...) or a script of operations"
            )
        if received.fields.get("max_tokens") == 0:
            answer = replace(
                answer, text="", tool_calls=(), thinking="", stop_reason="length", fault=None
            )
        fields = [*headers, *answer.headers.items()]
        if answer.error is not None and not received.is_stream:
            return error_reply(answer.error, received, headers=fields)
        random = Random(self._seed * 1_000_003 + received.number)
        compiled = self._compile(answer, received, usage or estimate(answer, received))
        if not received.is_stream:
            return self._whole(compiled, received, fields, random, is_split=not event_by_event)
        ops: list[Op] = [Wait(answer.ttft)] if answer.ttft else []
        ops.append(Head(200, (*_STREAM, id_header(received), *fields)))
        if answer.is_timed or event_by_event:
            events = [Event(self._fill(e.data, received), e.has_tokens) for e in compiled.events]
            timed = unsplit(answer) if event_by_event else answer
            ops += writes(timed, events, random)
        else:
            ops.append(Body(self._fill(compiled.joined, received)))
        return [*ops, End()]

    def _whole(
        self,
        compiled: _Compiled,
        received: Received,
        fields: _Fields,
        random: Random,
        *,
        is_split: bool,
    ) -> list[Op]:
        answer = compiled.answer
        body = self._fill(compiled.joined, received)
        tokens = [Event(b"", True)] * _num_tokens(answer) if answer.itl else []
        wait = duration(answer, tokens, random)
        ops: list[Op] = [Wait(wait)] if wait else []
        ops.append(Head(200, (_JSON, id_header(received), *fields), None, "length", len(body)))
        if answer.split is None or not is_split:
            ops.append(Body(body))
        else:
            ops += writes(replace(answer, itl=0.0), [Event(body)], random)
        return [*ops, End()]

    def _compile(self, answer: Answer, received: Received, usage: Usage) -> _Compiled:
        key = (id(answer), *_variant(received), encode(usage))
        if (found := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return found
        events = tuple(self._events(answer, received, usage))
        compiled = _Compiled(answer, events, b"".join(event.data for event in events))
        self._kept[key] = compiled
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return compiled

    def _events(self, answer: Answer, received: Received, usage: Usage) -> Iterator[Event]:
        assert received.api is not None
        form = _FORMATS[received.api]
        model = received.model or "scripted"
        facts = Facts(self._id, self._created, model, usage, received.fields)
        if not received.is_stream:
            yield Event(encode(form.whole(answer, facts)))
            return
        yield from form.events(answer, facts)
        if answer.error is not None:
            yield from form.failed(error_fields(answer.error, received), answer, facts)

    def _fill(self, data: bytes, received: Received) -> bytes:
        created = f"{int(received.received_at) % 10**10:010d}".lstrip("0") or "0"
        filled = data.replace(self._id.encode(), received.reply_id.encode())
        return filled.replace(str(self._created).encode(), created.encode())


def json_reply(
    content: bytes | Mapping[str, Any] | Sequence[Any],
    *,
    status: int = 200,
    headers: _Fields = (),
) -> list[Op]:
    """A script for any endpoint: `content` as JSON, or bytes as they are."""
    body = bytes(content) if isinstance(content, bytes | bytearray) else encode(content)
    return [Head(status, (_JSON, *headers), None, "length", len(body)), Body(body), End()]


def error_reply(error: ErrorAnswer, received: Received, *, headers: _Fields = ()) -> list[Op]:
    """The script that plays `error`, in the shape of the API that was called."""
    body = encode(error_fields(error, received)) if error.body is None else error.body
    ops: list[Op] = [Wait(error.ttft)] if error.ttft else []
    fields = (id_header(received), *headers, *error.headers.items())
    return ops + json_reply(body, status=error.status, headers=fields)


def estimate(answer: Answer, received: Received) -> Usage:
    """The answer's usage, or one from the lengths: four bytes of the request are a token."""
    if answer.usage is not None:
        return answer.usage
    reasoning = len(pieces(answer.thinking))
    return Usage(
        uncached=max(1, len(received.body) // 4), output=_num_tokens(answer), reasoning=reasoning
    )


def _num_tokens(answer: Answer) -> int:
    calls = sum(1 + len(argument_pieces(call)) for call in answer.tool_calls)
    return len(pieces(answer.thinking)) + len(pieces(answer.text)) + calls


def _variant(received: Received) -> tuple[object, ...]:
    """What of a request shows in its reply's bytes, besides ids and times."""
    if received.api == "openai.responses":
        fields = received.fields
        echoed: object = encode({name: fields.get(name) for name in compile_responses.ECHOED})
    else:
        echoed = encode(received.fields.get("stream_options"))
    return received.api, received.is_stream, received.model, echoed
