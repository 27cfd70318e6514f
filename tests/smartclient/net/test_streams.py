"""One asyncio connection over a socket pair: what it does when the other end is difficult."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from smartclient._call import Call, Headers, Origin, Timeline, Timeout, Trace
from smartclient._clock import SystemClock
from smartclient.net import NetOptions, streams
from smartclient.net.aio_response import Response
from smartclient.net.pool import Counts, Pool
from smartclient.net.streams import StreamConnection

ORIGIN = Origin("http", "a.example", 80)
REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Pair:
    """A connection, active in a pool of its own, and its peer."""

    connection: StreamConnection

    def __init__(self) -> None:
        self.ours, self.peer = socket.socketpair()
        self.peer.setblocking(False)
        self.pool: Pool[StreamConnection] = Pool(1)
        self.pool.reserve()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self.connection = StreamConnection(loop, self.ours, ORIGIN, self.pool, self.keep)
        await loop.create_connection(lambda: self.connection, sock=self.ours)
        self.pool.fill(self.connection)

    def keep(self, connection, expires, *, last=True) -> None:
        self.pool.release(connection, expires, last=last)

    def response(self, **changes) -> Response:
        fields = {
            "method": "POST",
            "origin": ORIGIN,
            "target": "/",
            "headers": Headers(),
            "trace": Trace(0.0),
            "timeout": Timeout(read=1.0, write=1.0),
        }
        call = Call(**(fields | changes))
        return Response(self.connection, call, Timeline(), SystemClock(), NetOptions())


@asynccontextmanager
async def a_pair() -> AsyncIterator[Pair]:
    pair = Pair()
    await pair.open()
    yield pair
    pair.connection.drop()
    pair.peer.close()
    await asyncio.sleep(0)


def run(scenario: Callable[[Pair], Awaitable[None]]) -> None:
    async def main() -> None:
        async with a_pair() as pair:
            await scenario(pair)

    asyncio.run(main())


def test_close_seen_by_the_first_write_lets_another_connection_carry_the_call():
    async def scenario(pair):
        pair.connection.num_exchanges = 1
        pair.peer.close()
        body = iter([b"piece"])
        assert await pair.response(body=body)._send(b"head") is False
        assert list(body) == [b"piece"]

    run(scenario)


def test_error_in_the_callers_body_is_the_callers():
    def body():
        yield b"piece"
        raise OSError("the file is gone")

    async def scenario(pair):
        with pytest.raises(OSError, match="the file is gone"):
            await pair.response(body=body())._send(b"head")

    run(scenario)


def test_stray_bytes_end_an_idle_connection():
    async def scenario(pair):
        pair.pool.release(pair.connection, None)
        pair.peer.send(b"stray")
        await asyncio.sleep(0.01)
        assert (pair.connection.is_cut, pair.pool.counts) == (True, Counts())

    run(scenario)


def test_stray_bytes_that_the_loop_has_not_read_yet_are_seen_before_the_write():
    async def scenario(pair):
        assert await pair.connection.is_fit()
        pair.peer.send(b"stray")
        assert not await pair.connection.is_fit()

    run(scenario)


def test_reply_returns_the_connection_before_anybody_reads_it():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"head")
        pair.peer.send(REPLY)
        await response._read_head()
        assert pair.pool.counts == Counts(idle=1)
        assert (await response.read(), await response.read()) == (b"ok", b"")

    run(scenario)


def test_cut_of_a_reply_that_is_here_leaves_the_connection_to_its_next_user():
    async def scenario(pair):
        first, second = pair.response(), pair.response()
        await first._send(b"head")
        pair.peer.send(REPLY)
        await first._read_head()
        pair.pool.take(0.0)
        await second._send(b"head")
        first.cut()
        assert not pair.connection.is_cut

    run(scenario)


def test_reader_that_has_not_run_yet_is_not_in_the_next_readers_way():
    async def scenario(pair):
        first, second = pair.response(), pair.response()
        await first._send(b"head")
        reading = asyncio.create_task(first._read_head())
        await asyncio.sleep(0)
        pair.connection.data_received(REPLY)
        pair.pool.take(0.0)
        await second._send(b"head")
        reading_second = asyncio.create_task(second._read_head())
        await asyncio.sleep(0)
        pair.connection.data_received(REPLY)
        await asyncio.gather(reading, reading_second)
        assert (first.status, second.status) == (200, 200)

    run(scenario)


def test_one_timer_serves_many_reads():
    async def scenario(pair):
        response = pair.response(timeout=Timeout(read=0.2))
        await response._send(b"head")
        pair.peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await response._read_head()
        timers = []
        for _ in range(5):
            reading = asyncio.create_task(response.read())
            await asyncio.sleep(0)
            timers.append(pair.connection._timer)
            pair.peer.send(b"x")
            await reading
        assert len(set(map(id, timers))) == 1

    run(scenario)


def test_end_that_trickles_in_holds_the_next_call_up_for_a_moment_in_all(monkeypatch):
    monkeypatch.setattr(streams, "DRAIN_TIME", 60.0)

    async def scenario(pair):
        response = pair.response()
        await response._send(b"POST / HTTP/1.1\r\n\r\n")
        pair.peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await response._read_head()
        await response.close(finished=True)

        # Long enough for the end to come, if each piece were waited for anew.
        feed = pair.connection.data_received
        for number, data in enumerate([*[b"1\r\nx\r\n"] * 100, b"0\r\n\r\n"], 1):
            pair.connection.loop.call_later(0.002 * number, feed, data)

        assert not await pair.connection.is_fit()

    run(scenario)


def test_connection_with_half_a_request_on_it_is_not_used_again():
    async def scenario(pair):
        response = pair.response(body=b"x" * 5_000_000)
        sending = asyncio.create_task(response._send(b"head"))
        await asyncio.sleep(0)
        pair.peer.send(REPLY)
        assert await sending
        await response._read_head()
        assert (await response.read(), pair.connection.is_cut) == (b"ok", True)

    run(scenario)
