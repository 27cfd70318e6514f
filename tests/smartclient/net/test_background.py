"""The loop in the background, and who waits for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

import server_reference
from server_reference.scripted import rule
from server_reference.scripted.ops import Body, End, Head, Pause
from smartclient._call import Timeline
from smartclient.net import background, blocking
from smartclient.net.background import Background
from smartclient.net.options import NetOptions
from smartclient.net.pool import Counts
from tests.end_to_end.http2_sides import until
from tests.end_to_end.net_sides import a_call


@pytest.fixture
def loop():
    running = Background()
    yield running
    running.stop()
    running.stop()  # safe to call twice


def test_what_is_run_there_comes_back_with_its_result_or_its_error(loop):
    async def fails(desk):
        raise LookupError("there")

    async def where(desk):
        return threading.current_thread().name

    assert loop.run(where) == "smartclient-http2"
    with pytest.raises(LookupError, match="there"):
        loop.run(fails)


def test_wait_that_takes_too_long_is_cancelled(loop):
    ended = threading.Event()

    async def hangs(desk):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        loop.run(hangs, timeout=0.01)
    assert ended.wait(5.0)


def test_pieces_of_a_body_are_made_by_the_thread_that_waits(loop):
    def body():
        while True:
            makers.append(threading.current_thread())
            yield b"piece"

    async def two(desk):
        pieces = desk.pieces(body())
        return [await anext(pieces), await anext(pieces)]

    makers = []
    assert loop.run(two) == [b"piece", b"piece"]
    assert makers == [threading.current_thread()] * 2


def test_error_in_a_body_goes_through_the_loop_to_its_caller(loop):
    def body():
        yield b"piece"
        raise OSError("the file is gone")

    async def read(desk):
        return [piece async for piece in desk.pieces(body())]

    with pytest.raises(OSError, match="the file is gone"):
        loop.run(read)


def test_background_that_was_inherited_or_has_ended_is_not_waited_for(loop):
    async def nothing(desk):
        return None

    loop.is_inherited = True
    with pytest.raises(RuntimeError, match="before the process forked"):
        loop.run(nothing)
    loop.tell(pytest.fail)
    loop.is_inherited = False
    loop.stop()
    with pytest.raises(RuntimeError, match="closed"):
        loop.run(nothing)
    loop.tell(pytest.fail)


def test_nothing_is_started_to_count_or_to_close(monkeypatch):
    monkeypatch.setattr(background._Running, "background", None)

    background.close_idle()

    assert background.counts() == Counts()
    assert background._Running.background is None


@pytest.mark.parametrize("is_used", [True, False])
def test_client_is_closed_once_and_for_all(is_used):
    with server_reference.scripted(rule([Head(200), Body(b"ok"), End()])) as server:
        client = blocking.Connections(NetOptions(http_version="2"))
        if is_used:
            assert client.exchange(a_call(server.base_url), Timeline()).read() == b"ok"
        client.close()
        client.close()
        with pytest.raises(RuntimeError, match="this client is closed"):
            client.exchange(a_call(server.base_url), Timeline())
        blocking.close_idle()


def test_reply_that_is_abandoned_is_reset_and_one_that_is_here_needs_no_closing():
    hanging = rule([Head(200), Body(b"begun"), Pause()], path="/hang")
    with server_reference.scripted([hanging, rule([Head(200), Body(b"ok"), End()])]) as server:
        client = blocking.Connections(NetOptions(http_version="2"))
        client.exchange(a_call(f"{server.base_url}/hang"), Timeline()).abandon()
        reply = client.exchange(a_call(server.base_url), Timeline())
        while reply.read():
            pass
        reply.close()
        asyncio.run(until(lambda: server.counters().resets_seen == 1))
        client.close()
        blocking.close_idle()


def test_background_that_was_stopped_begins_anew():
    before = background._Running.get()

    background._Running.stop()
    background._Running.stop()

    assert background._Running.get() is not before


def test_process_that_ends_in_the_middle_says_nothing_about_it():
    program = (
        "import sys, threading\n"
        "from smartclient._call import Timeline\n"
        "from smartclient.net import NetOptions, blocking\n"
        "from tests.end_to_end.net_sides import a_call\n"
        "client = blocking.Connections(NetOptions(http_version='2'))\n"
        "reply = client.exchange(a_call(sys.argv[1]), Timeline())\n"
        "reading = threading.Thread(target=lambda: [reply.read(), reply.read()], daemon=True)\n"
        "reading.start()\n"
        "reading.join(0.1)\n"
    )
    with server_reference.scripted(rule([Head(200), Body(b"begun"), Pause()])) as server:
        found = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, server.base_url],
            capture_output=True,
            text=True,
            timeout=30,
        )

    assert (found.returncode, found.stderr) == (0, "")
