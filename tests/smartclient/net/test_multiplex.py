"""One asyncio connection of streams, over a socket pair, whose other end is difficult."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from h2.settings import SettingCodes

from smartclient._call import Timeline, Timeout
from smartclient._clock import SystemClock
from smartclient._errors import ExchangeError
from smartclient.net import NetOptions, multiplex
from smartclient.net.aio_response import Response
from smartclient.net.link import Link
from smartclient.net.multiplex import Multiplex
from smartclient.net.pool import Counts, Pool, Sharing

from .h2_server import OK, a_call, frame


class Pair:
    """A connection in a pool of its own, and its peer, who speaks when it is told to."""

    def __init__(self) -> None:
        self.ours, self.peer = socket.socketpair()
        self.peer.setblocking(False)
        self.pool: Pool[Link] = Pool(10, Sharing(True))
        self.server = H2Connection(H2Configuration(client_side=False))
        self.server.initiate_connection()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        call = a_call()
        self.link = Multiplex(loop, self.ours, call.origin, self.pool, self.keep)
        await loop.create_connection(lambda: self.link, sock=self.ours)
        self.pool.reserve()
        self.pool.fill(self.link, self.link.room)
        self.lane = self.link.lane("me")

    def keep(self, connection, expires, *, last=True) -> None:
        self.pool.release(connection, expires, last=last)

    def response(self, *, is_first: bool = True, **changes) -> Response:
        call = a_call(**({"timeout": Timeout(read=5.0, write=5.0)} | changes))
        lane = self.lane if is_first else self.link.lane(self.pool.take(0.0) and "me")
        return Response(lane, call, Timeline(), SystemClock(), NetOptions())

    def hear(self) -> list:
        """What the peer was told."""
        events = []
        while True:
            try:
                data = self.peer.recv(65_536)
            except BlockingIOError:
                return events
            if not data:
                return events
            events += self.server.receive_data(data)

    async def say(self, data: bytes = b"") -> None:
        """Let the peer say what its h2 wants to, and `data`."""
        self.peer.send(self.server.data_to_send() + data)
        await turns()


async def turns(number: int = 5) -> None:
    """Let the loop go on."""
    for _ in range(number):
        await asyncio.sleep(0)


def run(scenario: Callable[[Pair], Awaitable[None]]) -> None:
    async def main() -> None:
        pair = Pair()
        await pair.open()
        await pair.say()
        pair.hear()
        await scenario(pair)
        pair.link.drop()
        pair.peer.close()
        await turns()

    asyncio.run(main())


def names(events: list) -> list[str]:
    return [type(event).__name__ for event in events]


# Signs of life.


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(multiplex, "PING_AFTER", 0.02)
    monkeypatch.setattr(multiplex, "PING_WAIT", 0.02)


@pytest.mark.usefixtures("impatient")
def test_silent_server_is_asked_and_its_calls_fail_when_it_does_not_answer():
    async def scenario(pair):
        responses = [pair.response(), pair.response(is_first=False)]
        for response in responses:
            await response._send(b"")
        found = await asyncio.gather(
            *[response._read_head() for response in responses], return_exceptions=True
        )
        assert [(error.kind, error.maybe_processed) for error in found] == [("closed", True)] * 2
        assert "answered no PING" in str(found[0])
        assert pair.pool.counts == Counts()

    run(scenario)


@pytest.mark.usefixtures("impatient")
def test_server_that_answers_may_take_its_time():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"")
        reading = asyncio.create_task(response._read_head())
        for _ in range(6):
            await asyncio.sleep(0.015)
            pair.hear()
            await pair.say()
        pair.server.send_headers(1, OK)
        await pair.say()
        await reading
        assert response.status == 200

    run(scenario)


@pytest.mark.usefixtures("impatient")
def test_idle_connection_is_not_asked():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"")
        pair.hear()
        pair.server.send_headers(1, OK, end_stream=True)
        await pair.say()
        await asyncio.sleep(0.05)
        assert (names(pair.hear()), pair.link.is_cut) == ([], False)
        assert pair.pool.counts == Counts(idle=1)

    run(scenario)


# Calls that cannot begin, or not go on.


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "seen-by-the-write"])
def test_close_before_the_first_write_lets_another_connection_carry_the_call(is_read):
    async def scenario(pair):
        pair.link.num_exchanges = 1
        response = pair.response(is_first=False)
        pair.peer.close()
        await turns(5 * is_read)
        assert await response._send(b"") is False

    run(scenario)


def test_broken_connection_is_not_offered_again_before_its_transport_says_so():
    async def scenario(pair):
        pair.pool.take(0.0)
        pair.link._transport.abort()
        assert not await pair.link.lane("you").is_fit()
        assert (pair.pool.take(0.0), pair.pool.counts) == (None, Counts())

    run(scenario)


def test_limit_that_came_before_the_first_call_is_known_to_the_pool():
    async def scenario(pair):
        pair.server.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 2})
        await pair.say()
        assert pair.link.room == 2

    run(scenario)


def test_connection_whose_stream_numbers_are_used_up_ends_with_its_last_call():
    async def scenario(pair):
        pair.link.state._h2.highest_outbound_stream_id = 2**31 - 3
        response = pair.response()
        await response._send(b"")
        assert (pair.pool.take(0.0), pair.pool.counts) == (None, Counts(active=1))
        pair.hear()
        pair.server.send_headers(2**31 - 1, OK, end_stream=True)
        await pair.say()
        assert (response._parser.status, pair.pool.counts) == (200, Counts())
        assert pair.link.is_cut

    run(scenario)


def test_call_that_never_begins_gives_its_room_back():
    async def scenario(pair):
        pair.lane.drop()
        pair.lane.drop()
        assert (pair.pool.counts, pair.link.lanes) == (Counts(idle=1), set())

    run(scenario)


def test_lane_that_is_not_fit_leaves_its_room_to_whoever_asked():
    async def scenario(pair):
        lane = pair.link.lane("you")
        pair.link.state.is_used_up = True
        assert not await lane.is_fit()
        assert pair.link.lanes == {pair.lane}

    run(scenario)


def test_idle_connection_whose_goaway_was_not_read_yet_is_not_fit():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"")
        pair.hear()
        pair.server.send_headers(1, OK, end_stream=True)
        await pair.say()
        lane = pair.link.lane(pair.pool.take(0.0))
        pair.peer.send(frame(7, 0, 0, bytes(8)))
        assert not await lane.is_fit()

    run(scenario)


def test_refusal_in_the_middle_of_an_upload_is_told_apart():
    async def scenario(pair):
        response = pair.response(body=b"x" * 500_000)
        sending = asyncio.create_task(response._send(b""))
        await turns()
        pair.hear()
        pair.server.reset_stream(1, 7)
        await pair.say()
        with pytest.raises(ExchangeError, match="REFUSED_STREAM") as error:
            await sending
        assert (error.value.kind, error.value.sent) == ("refused", "nothing")

    run(scenario)


def test_upload_goes_on_as_the_kernel_takes_it():
    async def scenario(pair):
        pair.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        response = pair.response(body=b"x" * 60_000)
        sending = asyncio.create_task(response._send(b""))
        heard = []
        while not sending.done():
            await turns()
            heard += pair.hear()
        assert sum(len(event.data) for event in heard if type(event) is DataReceived) == 60_000

    run(scenario)


def test_upload_that_nobody_takes_is_a_timeout():
    async def scenario(pair):
        pair.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        response = pair.response(body=b"x" * 60_000, timeout=Timeout(write=0.02))
        with pytest.raises(ExchangeError) as error:
            await response._send(b"")
        assert (error.value.kind, error.value.sent) == ("write_timeout", "part")

    run(scenario)


@pytest.mark.parametrize("stops", ["window", "kernel"])
def test_connection_on_which_an_upload_got_stuck_carries_no_further_call(stops):
    async def scenario(pair):
        if stops == "kernel":
            pair.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        response = pair.response(body=b"x" * 500_000, timeout=Timeout(write=0.02))
        with pytest.raises(ExchangeError, match="took nothing"):
            await response._send(b"")
        response.cut()
        assert (pair.pool.take(0.0), pair.pool.counts, pair.link.is_cut) == (None, Counts(), True)

    run(scenario)


def test_upload_that_its_own_window_stopped_leaves_the_connection():
    async def scenario(pair):
        pair.server.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1_000})
        await pair.say()
        response = pair.response(body=b"x" * 9_000, timeout=Timeout(write=0.02))
        with pytest.raises(ExchangeError, match="took nothing"):
            await response._send(b"")
        response.cut()
        assert pair.pool.take(0.0) is pair.link

    run(scenario)


def test_upload_is_interrupted_by_the_end_of_the_connection():
    async def scenario(pair):
        response = pair.response(body=b"x" * 500_000)
        sending = asyncio.create_task(response._send(b""))
        await turns()
        pair.peer.close()
        with pytest.raises(ExchangeError) as error:
            await sending
        assert (error.value.kind, error.value.sent) == ("write", "part")

    run(scenario)


def test_cut_while_it_uploads_is_ours():
    async def scenario(pair):
        response = pair.response(body=b"x" * 500_000)
        sending = asyncio.create_task(response._send(b""))
        await turns()
        pair.link.evict("me")
        with pytest.raises(ExchangeError, match="cut on this side"):
            await sending

    run(scenario)


def test_eviction_leaves_the_calls_of_others():
    async def scenario(pair):
        pair.pool.take(0.0)
        other = pair.link.lane("you")
        pair.link.evict("me")
        assert (pair.link.lanes, pair.link.is_cut) == ({other}, False)

    run(scenario)


def test_server_that_asks_and_reads_nothing_is_left(monkeypatch):
    monkeypatch.setattr(multiplex, "_MOST_UNSENT", 2_000)

    async def scenario(pair):
        pair.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        response = pair.response()
        await response._send(b"")
        while not pair.link.is_cut:
            await pair.say(frame(6, 0, 0, b"12345678") * 100)
        with pytest.raises(ExchangeError, match="reads nothing") as error:
            await response._read_head()
        assert error.value.kind == "limit"

    run(scenario)


def test_garbage_is_answered_with_goaway_and_ends_all_calls():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"")
        pair.hear()
        await pair.say(frame(6, 0, 1, b"12345678"))
        with pytest.raises(ExchangeError, match="broke HTTP/2") as error:
            await response._read_head()
        assert error.value.kind == "protocol"
        assert names(pair.hear()) == ["ConnectionTerminated"]

    run(scenario)


def test_forgotten_connection_is_not_touched():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"")
        pair.hear()
        pair.link.forget()
        response.abandon()
        await turns()
        assert response._is_mine()
        response.cut()
        assert pair.hear() == []
        pair.link._transport.abort()

    run(scenario)


def test_end_that_is_too_far_away_is_not_awaited():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"")
        pair.hear()
        pair.server.send_headers(1, OK)
        await pair.say()
        await response._read_head()
        await response.close(finished=True)
        await response.close(finished=True)
        for _ in range(5):
            pair.server.send_data(1, b"x" * 16_000)
            await pair.say()
        assert names(pair.hear()) == ["StreamReset"]
        assert pair.pool.counts == Counts(idle=1)

    run(scenario)
