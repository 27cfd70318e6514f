"""A body ends once, however it ends, and whoever waits for the end is told."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import inspect
import logging
from collections import deque
from itertools import count

import pytest

from smartclient._errors import ExchangeError
from smartclient._flow import Outcome, sleep
from smartclient.testing import ManualClock, a_call
from smartclient.transports.body import AsyncBody, AsyncResponse, Body, Response
from tests.smartclient.fakes import (
    ASYNCIO,
    DONE,
    MESSAGE,
    START,
    STOP,
    Answer,
    Watch,
    a_chunk,
    a_stream,
    text,
)

CHAT = "/v1/chat/completions"


def broken(kind="read"):
    return ExchangeError("the connection broke", kind=kind, sent="all")


def test_both_bodies_have_the_same_methods_in_the_same_order():
    def methods(kind):
        own = {name: part for name, part in vars(kind).items() if inspect.isfunction(part)}
        return [(name, list(inspect.signature(part).parameters)) for name, part in own.items()]

    assert methods(Body) == methods(AsyncBody)
    assert methods(Response)[:3] == methods(AsyncResponse)[:3]


def test_chunks_come_as_they_were_read(world):
    watch = Watch()
    reply, _ = world.reply(a_stream(START, text("Paris"), STOP), taps=[watch])
    body = reply.handle

    chunks = [world.do(body.next()) for _ in range(4)]

    assert [chunk and chunk.data for chunk in chunks] == [START, text("Paris"), STOP, None]
    assert watch.outcomes == [Outcome("complete", 0.0)]
    assert world.do(body.next()) is None


def test_record_of_a_body_that_is_over_keeps_no_socket(world):
    reply, _ = world.reply(a_stream(START, text("Paris"), STOP))
    attempt = reply.handle._attempt
    attempt.timeline.carrier = ("a socket", None)
    assert "network_stream" in reply.handle.extensions

    world.do(reply.handle.close())

    assert attempt.timeline.carrier is None


def test_what_was_peeked_at_is_handed_on_first(world):
    reply, response = world.reply(a_stream(START, text("Paris"), STOP))
    body = reply.handle

    assert world.do(body.fetch())
    assert world.do(body.fetch())
    first = world.do(body.next())

    assert first.data == START
    assert response.num_reads == 2


def test_fetching_tells_the_end(world):
    reply, _ = world.reply(a_stream())

    assert not world.do(reply.handle.fetch())


def test_a_body_that_ends_without_its_terminal_event_is_incomplete(world):
    watch = Watch()
    reply, _ = world.reply(a_stream(START), taps=[watch])

    world.do(reply.handle.next())
    world.do(reply.handle.next())

    assert watch.outcomes == [Outcome("incomplete", 0.0)]


def test_the_end_is_timed_in_the_attempt(world):
    clock = ManualClock(5.0)
    reply, _ = world.reply(Answer(MESSAGE), clock=clock)

    world.do(reply.handle.next())
    clock.advance(2.0)
    world.do(reply.handle.next())

    assert reply.handle._attempt.ended == 7.0


def test_a_connection_that_breaks_is_told_and_raised(world):
    watch, error = Watch(), broken("read_timeout")
    reply, _ = world.reply(a_stream(START, error), taps=[watch])

    world.do(reply.handle.next())
    with pytest.raises(ExchangeError) as caught:
        world.do(reply.handle.next())

    assert caught.value is error
    assert watch.outcomes == [Outcome("failed", 0.0, "read_timeout")]
    assert reply.handle._attempt.error == "read_timeout"
    assert world.do(reply.handle.next()) is None


@pytest.mark.parametrize(
    "interruption",
    [KeyboardInterrupt(), asyncio.CancelledError(), ValueError("ours")],
    ids=["ctrl-c", "cancelled", "a-fault"],
)
def test_a_read_that_is_interrupted_cuts(world, interruption):
    watch, leftovers = Watch(), deque()
    reply, response = world.reply(a_stream(START, interruption), taps=[watch], leftovers=leftovers)

    world.do(reply.handle.next())
    with pytest.raises(type(interruption)):
        world.do(reply.handle.next())

    assert response.num_cuts == 1
    assert (watch.outcomes, len(leftovers)) == ([], 1)


@pytest.mark.parametrize(
    ("pieces", "finished", "kind"),
    [
        pytest.param([START + text("a") + STOP], True, "complete", id="whole-answer"),
        pytest.param([START + text("a")], False, "cut", id="half"),
    ],
)
def test_closing_keeps_the_connection_when_nothing_is_missing(world, pieces, finished, kind):
    watch = Watch()
    reply, response = world.reply(a_stream(*pieces), taps=[watch])

    world.do(reply.handle.next())
    world.do(reply.handle.close())

    assert response.closed == [finished]
    assert [outcome.kind for outcome in watch.outcomes] == [kind]


def test_closing_before_anything_was_read_cuts_the_answer(world):
    watch = Watch()
    reply, response = world.reply(a_stream(START), taps=[watch])

    world.do(reply.handle.close())

    assert response.closed == [False]
    assert [outcome.kind for outcome in watch.outcomes] == ["cut"]


def test_closing_after_a_peek_keeps_what_was_seen_whole(world):
    """The reader left, but the connection need not go with it."""
    watch = Watch()
    reply, response = world.reply(a_stream(START + text("a") + STOP), taps=[watch])

    world.do(reply.handle.fetch())
    world.do(reply.handle.close())

    assert response.closed == [True]
    assert [outcome.kind for outcome in watch.outcomes] == ["cut"]
    assert world.do(reply.handle.next()) is None


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(["close", "close"], id="close-close"),
        pytest.param(["cut", "cut"], id="cut-cut"),
        pytest.param(["close", "cut"], id="close-cut"),
        pytest.param(["cut", "close"], id="cut-close"),
    ],
)
def test_a_body_ends_once(world, steps):
    watch, leftovers = Watch(), deque()
    reply, _ = world.reply(a_stream(START), taps=[watch], leftovers=leftovers)

    for step in steps:
        world.do(getattr(reply.handle, step)())

    assert len(watch.outcomes) + len(leftovers) == 1


def test_the_end_stays_where_it_was(world):
    clock = ManualClock(5.0)
    reply, _ = world.reply(a_stream(START), clock=clock)

    world.do(reply.handle.close())
    clock.advance(2.0)
    world.do(reply.handle.close())

    assert reply.handle._attempt.ended == 5.0


def test_the_end_is_told_even_when_closing_fails(world):
    watch = Watch()
    reply, response = world.reply(a_stream(START), taps=[watch])
    response.closed = None  # appending to it raises

    with pytest.raises(AttributeError):
        world.do(reply.handle.close())

    assert [outcome.kind for outcome in watch.outcomes] == ["cut"]


class Failing(Watch):
    """A tap that fails at the end."""

    def after(self, outcome):
        yield from sleep(0.0)
        raise RuntimeError("the store is away")


@pytest.mark.parametrize("end", ["next", "close"])
def test_a_tap_that_fails_at_the_end_breaks_nothing(world, caplog, end):
    watch = Watch()
    reply, _ = world.reply(a_stream(), taps=[Failing(), watch])

    with caplog.at_level(logging.ERROR, "smartclient"):
        world.do(getattr(reply.handle, end)())

    assert len(watch.outcomes) == 1
    assert "the store is away" in caplog.text


class Prompt(Watch):
    """A tap that is done as soon as it is asked; `fails` if it is told to."""

    def __init__(self, *, fails=False) -> None:
        super().__init__()
        self._fails = fails

    def after(self, outcome):
        if self._fails:
            raise RuntimeError("the store is away")
        self.outcomes.append(outcome)
        return iter(())


def test_a_tap_is_asked_at_once_however_late_its_flow_is_run(world):
    prompt, leftovers = Prompt(), deque()
    reply, _ = world.reply(a_stream(START), taps=[prompt], leftovers=leftovers)

    reply.handle.cut()

    assert [outcome.kind for outcome in prompt.outcomes] == ["cut"]
    assert len(leftovers) == 1


def test_a_tap_that_fails_when_it_is_asked_breaks_nothing(world, caplog):
    watch = Watch()
    reply, _ = world.reply(a_stream(), taps=[Prompt(fails=True), watch])

    with caplog.at_level(logging.ERROR, "smartclient"):
        world.do(reply.handle.next())

    assert len(watch.outcomes) == 1
    assert "the store is away" in caplog.text


@pytest.mark.parametrize(
    "interruption",
    [
        pytest.param(asyncio.CancelledError(), id="cancelled"),
        pytest.param(KeyboardInterrupt(), id="interrupted"),
    ],
)
def test_an_interrupted_body_does_its_last_flows_when_it_is_closed(world, interruption):
    watch, leftovers = Watch(), deque()
    reply, _ = world.reply(a_stream(START, interruption), taps=[watch], leftovers=leftovers)
    world.do(reply.handle.next())
    with pytest.raises(type(interruption)):
        world.do(reply.handle.next())

    world.do(reply.handle.close())

    assert [outcome.kind for outcome in watch.outcomes] == ["cut"]
    assert not leftovers


def test_a_cut_body_leaves_its_last_flows_for_later(world):
    watch, leftovers = Watch(), deque()
    reply, response = world.reply(a_stream(START), taps=[watch], leftovers=leftovers)

    reply.cut()
    assert watch.outcomes == []
    world.do(world.performer(world.provider()).run(leftovers.popleft()))

    assert response.num_cuts == 1
    assert [outcome.kind for outcome in watch.outcomes] == ["cut"]


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        pytest.param([START], "incomplete", id="ended"),
        pytest.param([START, broken("closed")], "closed", id="broke"),
    ],
)
def test_a_stream_that_stopped_before_its_content_may_have_been_processed(world, pieces, kind):
    reply, _ = world.reply(a_stream(*pieces))

    with contextlib.suppress(ExchangeError):
        world.do(world.performer(world.provider()).peek(reply))

    attempt = reply.handle._attempt
    assert (attempt.error, attempt.maybe_processed) == (kind, True)


@pytest.mark.parametrize(
    ("pieces", "path", "kind"),
    [
        pytest.param([], "/v1/messages", "incomplete", id="nothing"),
        pytest.param([START], "/v1/messages", "incomplete", id="no-content"),
        pytest.param([b": ping\n\n"], CHAT, "incomplete", id="pings"),
        pytest.param([DONE], CHAT, "incomplete", id="only-its-mark"),
        pytest.param([a_chunk("", finish="stop")], CHAT, None, id="finished-without-mark"),
        pytest.param([START, text("a")], "/v1/messages", None, id="content"),
    ],
)
def test_a_stream_that_ended_before_any_content_is_a_failure(world, pieces, path, kind):
    reply, _ = world.reply(a_stream(*pieces), call=a_call(path=path))

    failure = world.do(world.performer(world.provider()).peek(reply))

    assert (failure and failure.kind) == kind


def test_others_have_their_turn_while_a_small_piece_is_decoded_to_a_large_one():
    packed = gzip.compress(b": a\n\n" * 50_000)
    reply, _ = ASYNCIO.reply(a_stream(packed, content_encoding="gzip"))

    async def reads() -> None:
        while await reply.handle.next() is not None:
            pass

    async def turns() -> int:
        reading = asyncio.ensure_future(reads())
        for number in count():
            await asyncio.sleep(0)
            if reading.done():
                return number
        raise AssertionError

    assert asyncio.run(turns()) >= 3
