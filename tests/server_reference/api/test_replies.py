from __future__ import annotations

import asyncio

import pytest

from server_reference.api.anthropic_messages import AnthropicMessages
from server_reference.api.chat import ChatRequest
from server_reference.api.errors import ApiError
from server_reference.api.events import Failed, Finished, Started, TextDelta
from server_reference.api.openai_chat import OpenAIChat
from server_reference.api.openai_responses import OpenAIResponses
from server_reference.api.record import CallRecord
from server_reference.api.replies import (
    StreamTimes,
    collect,
    send_stream,
    unless_disconnected,
)
from tests.server_reference.asgi import events

REQUEST = ChatRequest(model="tiny", messages=[{"role": "user", "content": "x"}], max_tokens=5)
NEVER = 3600.0


class Sent:
    """Takes what an app sends."""

    def __init__(self):
        self.statuses: list[int] = []
        self.body = b""
        self.is_complete = False

    async def __call__(self, message):
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])
        else:
            self.body += message["body"]
            self.is_complete = not message["more_body"]


def streamed(service, *, wire=None, headers_after=NEVER, ping_after=NEVER):
    sent, record = Sent(), CallRecord("/v1/messages")

    async def main():
        record.note("gateway", 0.0, 0.001)
        await send_stream(
            sent,
            service.generate(REQUEST, record),
            wire=wire or AnthropicMessages(),
            request=REQUEST,
            record=record,
            times=StreamTimes(headers_after=headers_after, ping_after=ping_after),
        )

    try:
        asyncio.run(main())
    except ApiError as error:
        return sent, error
    return sent, None


@pytest.mark.parametrize(
    ("wire", "terminal"),
    [
        pytest.param(AnthropicMessages(), "message_stop", id="anthropic"),
        pytest.param(OpenAIChat(), None, id="openai"),
        pytest.param(OpenAIResponses(), "response.completed", id="responses"),
    ],
)
def test_the_remaining_stages_stand_just_before_the_terminal_event(service, wire, terminal):
    service.events = [Started(1, 0), TextDelta("a"), Finished("stop", 1)]

    sent, _ = streamed(service, wire=wire)

    *_, (comment, text), (last, _data) = events(sent.body)
    assert (comment, last) == (":", terminal)
    assert text == "server-timing gateway;dur=1.000;start=0.000"
    assert sent.is_complete


def test_a_failure_before_the_headers_is_raised(service):
    service.events = [Failed(ApiError("rate_limited", "busy"))]

    sent, error = streamed(service)

    assert sent.statuses == []
    assert error.kind == "rate_limited"


def test_a_failure_after_the_headers_is_the_last_event(service):
    service.events = [Started(1, 0), Failed(ApiError("internal", "it broke"))]

    sent, error = streamed(service)

    assert error is None
    assert sent.statuses == [200]
    assert [name for name, _ in events(sent.body)] == ["message_start", "ping", "error"]
    assert sent.is_complete


def test_headers_leave_without_a_token_and_later_refusals_are_events(service):
    service.events = [0.05, Failed(ApiError("invalid", "too long"))]

    sent, error = streamed(service, headers_after=0.01)

    assert error is None
    assert sent.statuses == [200]
    assert [name for name, _ in events(sent.body)] == ["ping", "error"]


def test_a_silent_stream_pings(service):
    service.events = [Started(1, 0), 0.3, Finished("stop", 0)]

    sent, _ = streamed(service, headers_after=0.001, ping_after=0.02)

    names = [name for name, _ in events(sent.body)]
    assert names[:4] == ["message_start", "ping", "ping", "ping"]
    assert names[-1] == "message_stop"


def test_a_talking_stream_does_not_ping_twice(service):
    service.events = [Started(1, 0), *[TextDelta("a")] * 50, Finished("stop", 0)]

    sent, _ = streamed(service)

    assert [name for name, _ in events(sent.body)].count("ping") == 1


def test_a_whole_answer_gathers_all_text(service):
    """Text beside the finish reason is easily lost (a fault seen in several servers)."""
    service.events = [Started(3, 1), TextDelta("a"), TextDelta("b"), Finished("length", 2)]

    answer = asyncio.run(collect(service.generate(REQUEST, CallRecord("/"))))

    assert answer.started == Started(3, 1)
    assert (answer.choices[0].text, answer.choices[0].finished) == ("ab", Finished("length", 2))


def test_work_is_cancelled_when_the_client_goes_away(service):
    service.events = [Started(1, 0), NEVER]

    async def gone():
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def work():
        await collect(service.generate(REQUEST, CallRecord("/")))

    assert asyncio.run(unless_disconnected(gone, work())) is False
    assert service.aborted == 1


def test_what_the_work_raises_reaches_the_caller():
    async def never():
        await asyncio.sleep(NEVER)

    async def work():
        raise ApiError("invalid", "no")

    with pytest.raises(ApiError):
        asyncio.run(unless_disconnected(never, work()))
