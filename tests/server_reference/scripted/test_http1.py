from __future__ import annotations

import asyncio

import pytest

from server_reference.scripted.clock import ManualClock
from server_reference.scripted.hooks import Observer
from server_reference.scripted.http1 import Http1
from server_reference.scripted.ops import Body, End, Head, Raw, Wait
from server_reference.scripted.rules import RuleBook, rules_of
from server_reference.scripted.service import ScriptedService

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Wire(asyncio.Transport):
    """Notes each write."""

    def __init__(self):
        super().__init__()
        self.writes = []
        self.is_closed = False
        self.is_read = True

    def write(self, data):
        self.writes.append(bytes(data))

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    abort = close


class Bytes(Observer):
    def __init__(self):
        self.counted = []
        self.ends = []

    def wrote(self, received, op, num_bytes):
        self.counted.append((type(op).__name__, num_bytes))

    def ended(self, received, how):
        self.ends.append(how)


class Breakage(Observer):
    def __init__(self):
        self.errors = []

    def broke(self, received, error):
        self.errors.append(error)


class Lost(Wire):
    """The connection turns out to be gone when something is written to it."""

    def is_closing(self):
        return len(self.writes) > 0


def written(script, *sent, observers=(), kind=Wire):
    """Each write of the server to a client that sends this, as it reaches the socket."""

    async def talk():
        clock = ManualClock(auto_advance=True)
        service = ScriptedService(RuleBook(rules_of(script)), clock=clock, observers=observers)
        wire = kind()
        front = Http1(service.opened(is_tls=False), service)
        front.connection_made(wire)
        for data in sent:
            front.data_received(data)
        for _ in range(20):
            await asyncio.sleep(0)
        front.connection_lost(None)
        return wire.writes

    return asyncio.run(talk())


def test_each_body_is_a_write_of_its_own():
    writes = written([Head(200), Body(b"a"), Body(b"b"), Body(b"c"), End()], GET)

    assert writes == [HEAD + b"1\r\na\r\n", b"1\r\nb\r\n", b"1\r\nc\r\n0\r\n\r\n"]


def test_what_waits_is_written_after_the_wait():
    writes = written([Head(200), Body(b"a"), Wait(1), Body(b"b"), Wait(1), End()], GET)

    assert writes == [HEAD + b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"]


def test_a_head_can_leave_alone():
    writes = written([Head(200), Wait(1), Body(b"a"), End()], GET)

    assert writes == [HEAD, b"1\r\na\r\n0\r\n\r\n"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(GET)])
def test_a_request_may_come_in_any_pieces(size):
    pieces = [GET[at : at + size] for at in range(0, len(GET), size)]

    assert written([Raw(b"seen"), End()], *pieces) == [b"seen"]


def test_observers_are_told_what_each_operation_wrote():
    observer = Bytes()

    written([Head(200), Body(b"abc"), Wait(1), End()], GET, observers=[observer])

    assert observer.counted == [("Head", len(HEAD)), ("Body", 8), ("Wait", 0), ("End", 5)]


def test_a_head_that_begins_in_the_read_of_a_large_body_is_no_large_head():
    body = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 250000\r\n\r\n" + b"x" * 250_000

    writes = written([Head(204), End()], body + GET[:9], GET[9:])

    assert b"".join(writes).count(b"HTTP/1.1 204 ") == 2


async def gives_up(received):
    yield Head(200)
    raise asyncio.CancelledError


async def leaves(received):
    yield Head(200)
    raise SystemExit


@pytest.mark.parametrize("function", [gives_up, leaves])
def test_a_live_script_that_ends_itself_ends_its_connection(function, caplog):
    broken = Breakage()

    written(function, GET, observers=[broken])

    assert [type(error) for error in broken.errors] == [RuntimeError]


@pytest.mark.parametrize("num_more", [64, 65])
def test_a_line_that_is_too_long_is_not_read_on(num_more):
    """One is played, 64 wait; a client that sends on has to."""

    async def talk():
        clock = ManualClock()
        rules = RuleBook(rules_of(lambda received: [Wait(1), Raw(b"x"), End()]))
        service = ScriptedService(rules, clock=clock)
        wire = Wire()
        front = Http1(service.opened(is_tls=False), service)
        front.connection_made(wire)
        front.data_received(GET * (1 + num_more))
        await asyncio.sleep(0)
        was_read = wire.is_read
        while clock.sleeping:
            clock.advance(1)
            for _ in range(5):
                await asyncio.sleep(0)
        front.connection_lost(None)
        return was_read, wire.is_read, len(wire.writes)

    assert asyncio.run(talk()) == (num_more == 64, True, 1 + num_more)


@pytest.mark.parametrize("wait", [[], [Wait(0)]], ids=["at-once", "waits"])
@pytest.mark.parametrize(("kind", "how"), [(Wire, "complete"), (Lost, "abandoned")])
def test_a_reply_that_could_not_leave_is_not_complete(kind, how, wait):
    observer = Bytes()

    written([Head(200), *wait, Body(b"abc"), End()], GET, observers=[observer], kind=kind)

    assert observer.ends == [how]


class Stuck(Wire):
    """Takes bytes, and holds them until it is drained."""

    def set_write_buffer_limits(self, high=None, low=None):
        self.high = 2**16 if high is None else high

    def write(self, data):
        super().write(data)
        if sum(map(len, self.writes)) > self.high:
            self.front.pause_writing()

    def drain(self):
        self.front.resume_writing()


def test_nothing_is_performed_before_what_stands_before_it_has_left():
    """A reset or a close would take it along, and a wait would begin too early."""

    async def talk():
        observer = Bytes()
        clock = ManualClock(auto_advance=True)
        rules = RuleBook(rules_of([[Head(200), Body(b"abc"), Wait(1), End()]]))
        service = ScriptedService(rules, clock=clock, observers=[observer])
        wire = Stuck()
        front = wire.front = Http1(service.opened(is_tls=False), service)
        front.connection_made(wire)
        front.data_received(GET)
        told = []
        for act in (lambda: None, wire.drain):
            act()
            for _ in range(10):
                await asyncio.sleep(0)
            told.append([name for name, _ in observer.counted])
        front.connection_lost(None)
        return told

    stuck, drained = asyncio.run(talk())

    assert stuck == ["Head", "Body"]
    assert drained == ["Head", "Body", "Wait", "End"]
