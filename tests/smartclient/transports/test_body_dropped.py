"""A reply that nobody holds any more is cut at once, without the collector."""

from __future__ import annotations

import weakref
from collections import deque

import pytest
import trio

from smartclient._call import Trace
from smartclient.testing import ManualClock, a_call
from smartclient.transports.driver import AsyncPerformer
from tests.smartclient.fakes import (
    START,
    STOP,
    AsyncProvider,
    Watch,
    a_stream,
    text,
)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    "read",
    [
        pytest.param(0, id="unread"),
        pytest.param(1, id="half-read"),
    ],
)
def test_a_dropped_reply_is_cut_at_once(home, read):
    """By its reference count: the collector may come minutes later."""
    watch, leftovers = Watch(), deque()
    reply, response = home.reply(a_stream(START, STOP), taps=[watch], leftovers=leftovers)
    for _ in range(read):
        home.do(reply.handle.next())

    del reply

    assert response.num_cuts == 1
    assert len(leftovers) == 1


@pytest.mark.usefixtures("no_collector")
def test_a_reply_that_was_peeked_at_is_cut_when_dropped(home):
    reply, response = home.reply(a_stream(START, text("a"), STOP))
    performer = home.performer(home.provider())
    home.do(performer.peek(reply))

    del reply

    assert response.num_cuts == 1


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    ("piece", "headers"),
    [
        pytest.param(b"data: " + b"x" * (33 << 20), {}, id="event-too-large"),
        pytest.param(b"no gzip", {"content_encoding": "gzip"}, id="broken-gzip"),
    ],
)
def test_a_reply_whose_events_cannot_be_read_is_cut_when_dropped(home, piece, headers):
    reply, response = home.reply(a_stream(piece, b"more", **headers))
    home.do(reply.handle.next())

    del reply

    assert response.num_cuts == 1


def test_a_body_that_has_ended_is_not_cut_when_dropped(world):
    reply, response = world.reply(a_stream(STOP))

    world.do(reply.handle.next())
    world.do(reply.handle.next())
    del reply

    assert response.num_cuts == 0


@pytest.mark.usefixtures("no_collector")
def test_a_dropped_body_is_freed_at_once(home):
    reply, _ = home.reply(a_stream(START))
    body = weakref.ref(reply.handle)
    home.do(reply.handle.next())

    del reply

    assert body() is None


@pytest.mark.usefixtures("no_collector")
def test_a_dropped_reply_is_cut_at_once_under_trio():
    """In one run, because trio keeps what its main task returned."""

    async def read_and_drop():
        performer = AsyncPerformer(provider, Trace(started=0.0), ManualClock(), deque())
        reply = await performer.exchange(a_call())
        await reply.handle.next()
        del reply
        return provider.responses[0].num_cuts

    provider = AsyncProvider(a_stream(START, STOP))
    assert trio.run(read_and_drop) == 1
