"""HTTP/2 over a transport that keeps each write apart; sockets are for `tests/end_to_end`."""

from __future__ import annotations

import asyncio

import pytest
from h2.connection import H2Connection

from server_reference.scripted.clock import ManualClock
from server_reference.scripted.hooks import Connection, Observer
from server_reference.scripted.http2 import Http2
from server_reference.scripted.ops import Body, End, Head, Wait
from server_reference.scripted.rules import RuleBook, rules_of
from server_reference.scripted.service import ScriptedService

FIELDS = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]
HEAD_BYTES, FRAME_BYTES = 10, 9


class Writes(asyncio.Transport):
    """Keeps each write."""

    def __init__(self, *, unsent=0):
        super().__init__()
        self.sizes = []
        self.is_paused = False
        self._unsent = unsent

    def write(self, data):
        self.sizes.append(len(data))

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return self._unsent

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self):
        self.is_paused = False

    def is_closing(self):
        return False


class Lost(Writes):
    """The connection turns out to be gone when a reply is written to it."""

    def is_closing(self):
        return len(self.sizes) > 0


class Ends(Observer):
    def __init__(self):
        self.told = []

    def ended(self, received, how):
        self.told.append(how)


def played(script, writes, *observers):
    """What the front writes for one request, after its greeting."""

    async def scenario():
        clock = ManualClock(auto_advance=True)
        service = ScriptedService(RuleBook(rules_of(script)), clock=clock, observers=observers)
        front, client = Http2(Connection(1, 0.0), service), H2Connection()
        front.connection_made(writes)
        client.initiate_connection()
        front.data_received(client.data_to_send())
        writes.sizes.clear()
        client.send_headers(1, FIELDS, end_stream=True)
        front.data_received(client.data_to_send())
        for _ in range(10):
            await asyncio.sleep(0)
        front.connection_lost(None)
        return front

    return asyncio.run(scenario())


@pytest.mark.parametrize("wait", [[], [Wait(0)]], ids=["at-once", "waits"])
def test_each_body_leaves_in_a_write_of_its_own(wait):
    writes = Writes()

    played([Head(200), Body(b"ab"), Body(b"c"), Body(b""), End(), *wait], writes)

    head = HEAD_BYTES + FRAME_BYTES + 2
    assert writes.sizes == [head, FRAME_BYTES + 1, FRAME_BYTES + FRAME_BYTES]


def test_a_wait_parts_what_stands_before_and_after_it():
    writes = Writes()

    played([Head(200), Wait(1), Body(b"ab"), Wait(1), End()], writes)

    assert writes.sizes == [HEAD_BYTES, FRAME_BYTES + 2, FRAME_BYTES]


def test_who_reads_nothing_is_read_no_more_until_it_does():
    writes = Writes(unsent=2**21)

    front = played([Head(200), End()], writes)
    paused = writes.is_paused
    front.resume_writing()

    assert (paused, writes.is_paused) == (True, False)


@pytest.mark.parametrize("wait", [[], [Wait(0)]], ids=["at-once", "waits"])
@pytest.mark.parametrize(("kind", "how"), [(Writes, "complete"), (Lost, "abandoned")])
def test_a_reply_that_could_not_leave_is_not_complete(kind, how, wait):
    ends = Ends()

    played([Head(200), *wait, Body(b"ab"), End()], kind(), ends)

    assert ends.told == [how]
