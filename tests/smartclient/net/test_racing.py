"""Which address is tried when, and that the dead ones cost little."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from smartclient._call import Timeline
from smartclient._errors import ExchangeError
from smartclient.net import dns
from smartclient.net.blocking_opening import Opener
from smartclient.net.opening import open_stream
from smartclient.net.pool import Pool
from smartclient.net.racing import Race
from smartclient.net.tcp import numeric_addresses

from .ways import a_route

A, B, C = (numeric_addresses(f"192.0.2.{number}", 80)[0] for number in (1, 2, 3))


def test_one_starts_after_the_other_once_it_is_late():
    race = Race([A, B])

    assert (race.start(), race.start()) == (A, None)
    race.is_late()
    assert (race.start(), race.start(), race.has_more) == (B, None, False)
    assert not race.is_lost


def test_a_failure_starts_the_next_at_once_and_the_last_one_loses():
    race = Race([A, B])
    race.start()
    race.failed(OSError("first"))
    assert race.start() == B

    error = OSError("second")
    race.failed(error)

    assert (race.is_lost, race.error) == (True, error)


def test_without_an_address_it_is_lost_from_the_start():
    assert Race([]).is_lost


@contextlib.contextmanager
def silent() -> Iterator[tuple]:
    """An address where no connection is ever accepted or refused: its queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield socket.AF_INET, listener.getsockname()


@contextlib.contextmanager
def listening() -> Iterator[tuple]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield socket.AF_INET, listener.getsockname()


def refusing() -> tuple:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return socket.AF_INET, listener.getsockname()


def connected_to(addresses, kind, monkeypatch, timeout=5.0) -> tuple:
    """The peer of the connection that is opened to a name with these addresses."""
    found = [(family, 1, 6, "", address) for family, address in addresses]
    return opened_by(kind, lambda *what, **how: found, monkeypatch, timeout)


def opened_by(kind, look_up, monkeypatch, timeout) -> tuple:
    monkeypatch.setattr(dns.RESOLVER, "_look_up", look_up)
    dns.RESOLVER.forget()
    route, pool, timeline = a_route("many.example"), Pool(1), Timeline()
    pool.reserve()

    async def opened():
        loop = asyncio.get_running_loop()
        connection = await open_stream(
            route, pool, keep=None, timeout=timeout, timeline=timeline, monotonic=loop.time
        )
        peer = connection._transport.get_extra_info("peername")
        connection.drop()
        await asyncio.sleep(0)
        return peer

    try:
        if kind == "asyncio":
            return asyncio.run(opened())
        connection = Opener(route, pool, timeout, timeline, monotonic).open()
        peer = connection.sock.getpeername()
        connection.cut()
        return peer
    finally:
        dns.RESOLVER.forget()
        gc.collect()  # a socket that was left open would warn


@pytest.fixture(params=["threads", "asyncio"])
def kind(request):
    return request.param


def test_a_silent_address_costs_a_moment(kind, monkeypatch):
    """A black-holed IPv6 address took the whole connect timeout (urllib3#797)."""
    monkeypatch.setattr("smartclient.net.blocking_opening.ATTEMPT_DELAY", 0.02)
    monkeypatch.setattr("smartclient.net.opening.ATTEMPT_DELAY", 0.02)
    with silent() as dead, listening() as alive:
        assert connected_to([dead, alive], kind, monkeypatch) == alive[1]


def test_a_refusing_address_costs_nothing(kind, monkeypatch):
    monkeypatch.setattr("smartclient.net.blocking_opening.ATTEMPT_DELAY", 60.0)
    monkeypatch.setattr("smartclient.net.opening.ATTEMPT_DELAY", 60.0)
    with listening() as alive:
        assert connected_to([refusing(), refusing(), alive], kind, monkeypatch) == alive[1]


def test_the_first_address_wins_when_it_answers(kind, monkeypatch):
    with listening() as first, listening() as second:
        assert connected_to([first, second], kind, monkeypatch) == first[1]


def test_all_that_refuse_are_counted(kind, monkeypatch):
    with pytest.raises(ExchangeError, match="any of its 2 addresses") as caught:
        connected_to([refusing(), refusing()], kind, monkeypatch)

    assert caught.value.kind == "connect"


@pytest.mark.parametrize("num", [1, 2])
def test_silent_addresses_end_with_the_timeout(kind, monkeypatch, num):
    with silent() as one, silent() as other, pytest.raises(ExchangeError) as caught:
        connected_to([one, other][:num], kind, monkeypatch, timeout=0.05)

    assert caught.value.kind == "connect_timeout"
    assert "in stage tcp (timeout.connect is 0.05 s" in str(caught.value)


def test_a_look_up_that_hangs_ends_with_the_timeout(kind, monkeypatch):
    """The system's resolver cannot be interrupted, and may need half a minute."""
    let_go = threading.Event()

    with pytest.raises(ExchangeError, match="in stage dns") as caught:
        opened_by(kind, lambda *what, **how: let_go.wait(5.0) and [], monkeypatch, 0.05)
    let_go.set()

    assert caught.value.kind == "connect_timeout"
