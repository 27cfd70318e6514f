"""Sync clients of HTTP/2 that are closed by the garbage collector, wherever it runs.

An SDK's client closes itself in `__del__`, and its streams in the `finally` of a generator;
both may run in any thread, in the middle of anything: also in the background's own thread,
and in one that holds a lock for which the background waits. So closing waits for nobody.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import openai
import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer, rule
from smartclient._call import Timeline
from smartclient.net import background, blocking
from smartclient.net.background import Background
from smartclient.net.dns import RESOLVER
from smartclient.net.lobby import LOBBY
from smartclient.net.options import NetOptions

from .interrupted import complaints
from .net_sides import a_call

SLOW = rule(Answer(text="one two three four", itl=10.0))


@pytest.fixture
def server() -> Iterator[server_reference.ScriptedServer]:
    with server_reference.scripted(SLOW) as running:
        yield running


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Background:
    """The background, for which nobody who closes has the patience of this test."""
    monkeypatch.setattr(background, "CLOSE_TIME", 60.0)
    return background._Running.get()


def in_a_cycle(server: server_reference.ScriptedServer) -> None:
    """Leave an SDK's client, and a stream of it that has begun, to the collector."""
    sdk = openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="k", max_retries=0)
    client = smartclient.wrap(sdk, http_version="2")
    asked = [{"role": "user", "content": "Hi"}]
    stream = client.chat.completions.create(model="m", messages=asked, stream=True)
    next(iter(stream))
    cycle: list[object] = [client, stream]
    cycle.append(cycle)


@contextmanager
def busy(loop: Background) -> Iterator[None]:
    """The background does something else for as long as the block."""
    go_on = threading.Event()
    loop.tell(lambda: go_on.wait(30.0))
    yield
    go_on.set()


def ends(what: Callable[[], object]) -> bool:
    """Whether it ends by itself."""
    thread = threading.Thread(target=what, daemon=True)
    thread.start()
    thread.join(5.0)
    return not thread.is_alive()


def test_closing_waits_for_no_loop_that_is_busy(server, loop):
    client = blocking.Connections(NetOptions(http_version="2"))
    replies = [client.exchange(a_call(server.base_url), Timeline()) for _ in range(3)]

    with busy(loop):
        assert ends(replies[0].close)
        assert ends(lambda: replies[1].close(finished=True))
        assert ends(client.close)

    with pytest.raises(RuntimeError, match="this client is closed"):
        client.exchange(a_call(server.base_url), Timeline())
    assert blocking.counts().active == 0


@pytest.mark.sdk
def test_a_client_is_collected_in_the_backgrounds_own_thread(server, loop):
    async def collect(desk):
        return gc.collect()

    in_a_cycle(server)

    assert loop.run(collect, timeout=5.0)
    server.settle(patience=5.0)
    assert (blocking.counts().active, server.counters().streams_open) == (0, 0)


@pytest.mark.sdk
@pytest.mark.parametrize(
    "lock",
    [pytest.param(LOBBY._lock, id="of-the-pools"), pytest.param(RESOLVER._lock, id="of-names")],
)
def test_a_client_is_collected_by_who_holds_what_the_background_waits_for(server, loop, lock):
    def collect():
        with lock:
            loop.tell(wait_for_lock)
            gc.collect()

    def wait_for_lock():
        with lock:
            pass

    in_a_cycle(server)

    assert ends(collect)
    server.settle(patience=5.0)
    assert (blocking.counts().active, server.counters().streams_open) == (0, 0)


@pytest.mark.sdk
@pytest.mark.parametrize("left", ["client", "client, stream, streams"])
def test_a_process_that_ends_with_a_client_and_its_streams_says_nothing(server, left):
    program = (
        "import sys, openai, smartclient\n"
        "sdk = openai.OpenAI(base_url=sys.argv[1], api_key='k', max_retries=0)\n"
        "client = smartclient.wrap(sdk, http_version='2')\n"
        "asked = [{'role': 'user', 'content': 'Hi'}]\n"
        "create = client.chat.completions.create\n"
        "stream = create(model='m', messages=asked, stream=True)\n"
        "streams = iter(stream)\n"
        "next(streams)\n"
        f"kept = [{left}]\n"
        "kept.append(kept)\n"
        "del client, stream, streams, create, sdk\n"
    )

    found = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program, f"{server.base_url}/v1"],
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert (found.returncode, complaints(found.stderr)) == (0, [])
    server.settle(patience=5.0)
    assert server.counters().streams_open == 0
