"""Connections that are kept, bounded and made anew, with connections that are played."""

from __future__ import annotations

import asyncio

import pytest

from smartclient.stores.connections import (
    Connections,
    Errors,
    LoopConnections,
    LostError,
    NoPlaceError,
    Progress,
)


class GoneError(Exception):
    pass


class RefusedError(Exception):
    pass


ERRORS = Errors(refusals=(RefusedError,), gone=(GoneError,), any=(GoneError, OSError))


class Server:
    """Makes connections that answer what is listed, one after the other; an error is raised."""

    def __init__(self, *answers):
        self.answers, self.made, self.closed = list(answers), 0, 0

    def make(self):
        self.made += 1
        return Played(self)


class Played:
    def __init__(self, server):
        self._server = server

    def connect(self):
        if self._server.answers[0] == "down":
            raise self._server.answers.pop(0) and GoneError("down")

    def send_command(self, *parts):
        pass

    def read_response(self):
        answer = self._server.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def disconnect(self):
        self._server.closed += 1


class PlayedAsync(Played):
    async def connect(self):
        super().connect()

    async def send_command(self, *parts):
        pass

    async def read_response(self):
        await asyncio.sleep(0)
        answer = super().read_response()
        if answer == "silence":
            await asyncio.sleep(60)
        return answer

    async def disconnect(self, nowait=False):
        super().disconnect()


class AsyncServer(Server):
    def make(self):
        self.made += 1
        return PlayedAsync(self)


def in_threads(server, times, progress, timeout=5.0):
    connections = Connections(server.make, ERRORS, most=1, timeout=timeout)
    return [connections.exchange(progress, "PING") for _ in range(times)]


def on_a_loop(server, times, progress, timeout=5.0):
    async def run():
        connections = LoopConnections(server.make, ERRORS, most=1, timeout=timeout)
        return [await connections.exchange(progress, "PING") for _ in range(times)]

    return asyncio.run(run())


both = pytest.mark.parametrize(
    ("exchange", "kind"),
    [
        pytest.param(in_threads, Server, id="threads"),
        pytest.param(on_a_loop, AsyncServer, id="loop"),
    ],
)


@both
def test_a_connection_is_kept(exchange, kind):
    server = kind("a", "b", "c")

    assert exchange(server, 3, Progress()) == ["a", "b", "c"]
    assert server.made == 1


@both
def test_a_refusal_leaves_the_connection_and_nothing_in_doubt(exchange, kind):
    server, progress = kind(RefusedError()), Progress()

    with pytest.raises(RefusedError):
        exchange(server, 1, progress)

    assert not progress.is_out


@both
def test_one_that_was_kept_and_is_gone_is_replaced(exchange, kind):
    server = kind("a", GoneError(), "b")

    assert exchange(server, 2, Progress()) == ["a", "b"]
    assert server.made == 2


@both
def test_a_new_one_that_breaks_is_not_replaced(exchange, kind):
    server, progress = kind(GoneError(), "b"), Progress()

    with pytest.raises(LostError):
        exchange(server, 1, progress)

    assert progress.is_out
    assert (server.made, server.closed) == (1, 1)


@both
def test_a_server_that_is_down_has_got_nothing(exchange, kind):
    server, progress = kind("down"), Progress()

    with pytest.raises(LostError):
        exchange(server, 1, progress)

    assert not progress.is_out


@both
@pytest.mark.parametrize("last", ["down", RefusedError()], ids=["down", "refused"])
def test_a_vain_second_try_leaves_the_first_in_doubt(exchange, kind, last):
    server, progress = kind("a", GoneError(), last), Progress()

    with pytest.raises((LostError, RefusedError)):
        exchange(server, 2, progress)

    assert progress.is_out


def test_an_interrupted_exchange_closes_its_connection():
    """What comes next on it would be taken for the answer to another."""
    server = Server(KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        in_threads(server, 1, Progress())

    assert server.closed == 1


def test_a_task_does_not_wait_for_a_place_for_ever():
    server = AsyncServer("silence", "b")
    connections = LoopConnections(server.make, ERRORS, most=1, timeout=5.0)
    hasty = LoopConnections(server.make, ERRORS, most=1, timeout=0.01)

    async def run():
        hasty._loops = connections._loops  # the same places, waited for less
        first = asyncio.create_task(connections.exchange(Progress(), "PING"))
        await asyncio.sleep(0)
        with pytest.raises(NoPlaceError):
            await hasty.exchange(Progress(), "PING")
        first.cancel()
        await asyncio.wait([first])

    asyncio.run(run())


def test_a_silent_server_is_left_after_the_timeout():
    server, progress = AsyncServer("silence"), Progress()

    with pytest.raises(LostError) as lost:
        on_a_loop(server, 1, progress, timeout=0.01)

    assert isinstance(lost.value.__cause__, TimeoutError)
    assert progress.is_out
    assert server.closed == 1
