"""What a wire format makes of one and the same events, as a stream and as a whole reply."""

from __future__ import annotations

import json
from typing import Any

from server_reference.api.chat import ChatRequest
from server_reference.api.errors import ApiError
from server_reference.api.events import (
    ArgumentsDelta,
    Event,
    Finished,
    Started,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from server_reference.api.wire import Answer, WireFormat
from tests.server_reference.asgi import events

__all__ = ["STARTED", "STREAMED", "a_call", "as_reply", "as_stream"]

STREAMED = ChatRequest(model="tiny", messages=[], max_tokens=9, stream=True)
STARTED = Started(10, 4)


def a_call(id: str = "1", index: int = 0) -> list[Event]:
    """A call of the tool `at`, its arguments in two pieces."""
    return [
        ToolCallStarted(id, "at", index),
        ArgumentsDelta('{"city"', index),
        ArgumentsDelta(': "Rome"}', index),
        ToolCallFinished(index),
    ]


def as_stream(wire: WireFormat, request: ChatRequest, *what: Event | ApiError) -> list[Any]:
    """The stream's events: names and data. The request's last answer ends it."""
    writer = wire.writer(request, "req_1")
    stream, num_unfinished = b"", request.n
    for event in what:
        match event:
            case Started():
                stream += writer.started(event)
            case TextDelta():
                stream += writer.text(event)
            case Finished():
                num_unfinished -= 1
                stream += writer.finished(event)
                stream += b"" if num_unfinished else writer.end()
            case ApiError():
                stream += writer.failed(event)
            case _:
                stream += writer.tool_call(event)
    return events(stream)


def as_reply(wire: WireFormat, request: ChatRequest, *what: Event) -> Any:
    """The whole reply."""
    return json.loads(wire.reply(Answer.of(*what), request, "req_1"))
