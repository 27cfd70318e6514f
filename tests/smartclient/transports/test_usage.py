"""What an attempt used is kept with it, as it comes, whoever reads on."""

from __future__ import annotations

import json

import pytest

from smartclient._errors import ExchangeError
from smartclient._flow import Outcome
from smartclient.testing import a_call
from smartclient.wire import Served, Usage
from tests.smartclient.fakes import (
    DONE,
    MESSAGE,
    OVERLOAD,
    RESPONSE,
    START,
    STOP,
    Answer,
    Watch,
    a_chunk,
    a_stream,
    an_event,
    text,
)

CHAT = "/v1/chat/completions"
FINAL = Usage(uncached=9, cache_read=0, cache_write={}, output=2)
TOLD = {"prompt_tokens": 9, "completion_tokens": 2}


def a_count(usage, *, finish=None, **fields):
    """A chunk of Chat that tells `usage`."""
    choices = [] if finish is None else [{"index": 0, "delta": {}, "finish_reason": finish}]
    return f"data: {json.dumps({'choices': choices, 'usage': usage, **fields})}\n\n".encode()


def a_growth(output, *, stop=None):
    """A message_delta with the output so far."""
    return an_event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": output})


def attempt_of(world, *pieces, path="/v1/messages", reads=99, **payload):
    """The attempt whose body brought `pieces`, read to its end or left after some reads."""
    call = a_call(path=path, payload={"model": "tiny", "messages": [], "stream": True} | payload)
    reply, _ = world.reply(a_stream(*pieces), call=call)
    body = reply.handle
    while reads and world.do(body.next()) is not None:
        reads -= 1
    world.do(body.close())
    return body._attempt


def test_counts_are_known_as_they_come_and_replace_each_other(world):
    reply, _ = world.reply(a_stream(START, a_growth(5), STOP))
    body, seen = reply.handle, []

    for _ in range(3):
        world.do(body.next())
        seen.append(body._attempt.usage.output)

    assert seen == [1, 5, 2]
    assert body._attempt.usage == FINAL


def test_what_was_peeked_at_counts_though_nobody_reads_it(world):
    reply, _ = world.reply(a_stream(START, OVERLOAD))

    world.do(reply.handle.fetch())
    world.do(reply.handle.close())

    usage = reply.handle._attempt.usage
    assert (usage.uncached, usage.output, usage.is_final) == (9, 1, False)


def test_a_failed_response_tells_what_it_used(world):
    failed = RESPONSE | {"status": "failed", "error": {"code": "server_error"}}
    event = an_event("response.failed", response=failed)

    attempt = attempt_of(world, event, path="/v1/responses", reads=0)
    assert attempt.usage is None  # nothing had come

    attempt = attempt_of(world, event, path="/v1/responses", reads=1)
    assert (attempt.usage.output, attempt.usage.is_final) == (2, True)


@pytest.mark.parametrize(
    ("pieces", "reads", "output", "is_final"),
    [
        pytest.param([START, text("a"), STOP], 99, 2, True, id="whole"),
        pytest.param([START, text("a"), STOP], 3, 2, True, id="left-at-the-end"),
        pytest.param([START + text("a") + STOP], 1, 2, True, id="left-with-all-of-it"),
        pytest.param([START, text("a") + text("b"), STOP], 2, 2, False, id="left"),
        pytest.param([START, text("")], 2, 1, False, id="ended-early"),
        pytest.param([START, text("a"), text("b"), a_growth(7)], 99, 7, False, id="still-growing"),
        pytest.param([START, a_growth(7, stop="end_turn")], 99, 7, True, id="stopped"),
        pytest.param([START, text("a") * 3, OVERLOAD], 99, 3, False, id="failed"),
        pytest.param(
            [START, text("a") * 3, an_event("message_stop")], 99, 3, False, id="only-a-placeholder"
        ),
        pytest.param(
            [START, a_growth(7), an_event("message_stop")], 99, 7, True, id="no-stop-reason"
        ),
    ],
)
def test_a_cut_message_is_the_least_that_was_used(world, pieces, reads, output, is_final):
    usage = attempt_of(world, *pieces, reads=reads).usage

    assert (usage.uncached, usage.output, usage.is_final) == (9, output, is_final)


@pytest.mark.parametrize(
    ("pieces", "reads", "is_final"),
    [
        pytest.param([a_chunk("a", finish="stop"), a_count(TOLD), DONE], 99, True, id="at-the-end"),
        pytest.param([a_count(TOLD), a_chunk("a"), DONE], 99, True, id="at-the-beginning"),
        pytest.param([a_count(TOLD, finish="stop"), DONE], 1, True, id="left-when-finished"),
        pytest.param([a_count(TOLD), a_chunk("a"), a_chunk("b")], 2, False, id="left"),
        pytest.param([a_count(TOLD), a_chunk("a")], 99, False, id="ended-early"),
    ],
)
def test_a_cut_chat_is_the_least_that_was_used(world, pieces, reads, is_final):
    usage = attempt_of(world, *pieces, path=CHAT, reads=reads).usage

    assert usage == Usage(uncached=9, output=2, is_final=is_final)


def test_a_chat_that_tells_no_counts_has_none(world):
    """Without `stream_options.include_usage` nobody knows, and nothing is made up."""
    attempt = attempt_of(world, a_chunk("a", finish="stop"), DONE, path=CHAT)

    assert attempt.usage is None


def test_counts_of_null_leave_what_was_known(world):
    nulls = a_count({"prompt_tokens": None, "completion_tokens": None}, finish="stop")

    assert attempt_of(world, a_count(TOLD), nulls, path=CHAT).usage == Usage(uncached=9, output=2)


def test_a_connection_that_breaks_leaves_the_least_that_was_used(world):
    error = ExchangeError("the connection broke", kind="read", sent="all")
    reply, _ = world.reply(a_stream(START, text("a") * 4, error))

    with pytest.raises(ExchangeError):
        world.all(iter_of(world, reply.handle))

    usage = reply.handle._attempt.usage
    assert (usage.output, usage.is_final) == (4, False)


def iter_of(world, body):
    """All chunks of `body`."""
    if not world.is_async:
        return iter(body.next, None)

    async def chunks():
        while (chunk := await body.next()) is not None:
            yield chunk

    return chunks()


class Late:
    """A tap that looks at the attempt when the body has ended, as a budget does."""

    def __init__(self, trace):
        self.trace, self.seen = trace, []

    def feed(self, delta, at): ...

    def comment(self, text): ...

    def after(self, outcome: Outcome):
        self.seen.append(self.trace.attempts[-1].usage)
        yield from ()


def test_a_tap_sees_the_usage_as_it_is_left(world):
    call = a_call()
    late = Late(call.trace)
    reply, _ = world.reply(a_stream(START, text("a") * 3), call=call, taps=[late], trace=call.trace)

    world.do(reply.handle.next())
    world.do(reply.handle.next())
    world.do(reply.handle.close())

    assert [(usage.output, usage.is_final) for usage in late.seen] == [(3, False)]


def test_a_whole_reply_tells_its_counts_when_it_has_been_read(world):
    reply, _ = world.reply(Answer(MESSAGE), taps=[Watch()])

    world.do(reply.handle.next())
    assert reply.handle._attempt.usage is None
    world.do(reply.handle.next())

    assert reply.handle._attempt.usage == FINAL


def test_how_it_was_asked_for_and_served_is_kept(world):
    asked = {"service_tier": "auto", "inference_geo": "us"}
    served = {"service_tier": "priority", "speed": "fast", "input_tokens": 9}
    start = an_event("message_start", message={"model": "tiny-1", "usage": served})

    attempt = attempt_of(world, start, STOP, **asked)

    assert (attempt.model, attempt.asked) == ("tiny", Served(service_tier="auto", geo="us"))
    assert attempt.served == Served(model="tiny-1", service_tier="priority", speed="fast")


@pytest.mark.parametrize(("name", "fees"), [("web_search", True), ("web_fetch", False)])
def test_a_tool_that_ran_at_the_provider_is_noted(world, name, fees):
    tool = {"type": "server_tool_use", "name": name}

    attempt = attempt_of(world, START, an_event("content_block_start", content_block=tool), STOP)

    assert (attempt.changes_input, attempt.has_fees) == (True, fees)


def test_of_an_ordinary_answer_nothing_is_noted(world):
    attempt = attempt_of(world, START, text("a"), STOP)

    assert not attempt.changes_input
    assert not attempt.has_fees


def test_a_fee_is_not_forgotten_for_a_later_tool_without_one(world):
    tools = [{"type": "server_tool_use", "name": name} for name in ("web_search", "web_fetch")]
    events = [an_event("content_block_start", content_block=tool) for tool in tools]

    assert attempt_of(world, START, *events, STOP).has_fees
