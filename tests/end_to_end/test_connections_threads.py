"""What only threads and processes can do to connections."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from smartclient._call import Timeline, Timeout
from smartclient._errors import ExchangeError
from smartclient.net import NetOptions, blocking, pools
from smartclient.net.lobby import Lobby

from .net_sides import a_call
from .raw_server import CHUNKED, Peer, RawServer, forever, reply


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    blocking.close_idle()
    assert blocking.counts() == (0, 0, 0)


def fetch(client: blocking.Connections, url: str, **changes) -> bytes:
    response = client.exchange(a_call(url, **changes), Timeline())
    return b"".join(iter(response.read, b""))


def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.002)
    pytest.fail("it did not come to that within 4 s")


def silent(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED)
    peer.until_closed()


def test_a_call_that_joins_the_queue_of_a_client_closed_just_then_waits_for_nobody(monkeypatch):
    client, other, joined = blocking.Connections(), blocking.Connections(), Lobby.enter

    def closed_before(*given):
        client.close()
        return joined(*given)

    monkeypatch.setattr(pools, "MOST_CONNECTIONS", 1)
    with RawServer(silent) as server:
        held = other.exchange(a_call(server.url), Timeline())
        monkeypatch.setattr(Lobby, "enter", closed_before)
        begun = time.monotonic()
        with pytest.raises(RuntimeError, match="client is closed"):
            client.exchange(a_call(server.url, timeout=Timeout(pool=3.0)), Timeline())
        took = time.monotonic() - begun
        held.cut()

    assert took < 2.0


def test_twenty_threads_share_one_client_within_its_limit():
    client = blocking.Connections(NetOptions(max_connections=4))

    with RawServer(forever(lambda request: reply(request[-3:]))) as server:
        bodies = [b"%03d" % number for number in range(200)]
        with ThreadPoolExecutor(20) as threads:
            echoed = list(threads.map(lambda body: fetch(client, server.url, body=body), bodies))
        blocking.close_idle()

    assert echoed == bodies
    assert server.num_connections <= 4


def test_client_closed_by_another_thread_ends_the_read():
    client = blocking.Connections()

    with RawServer(silent) as server:
        response = client.exchange(a_call(server.url), Timeline())
        threading.Timer(0.05, client.close).start()
        with pytest.raises(ExchangeError, match="cut on this side"):
            response.read()
        assert server.wait_closed(1)


def test_client_closed_by_another_thread_sends_queued_calls_away():
    client = blocking.Connections(NetOptions(max_connections=1))

    with RawServer(silent) as server:
        held = client.exchange(a_call(server.url), Timeline())
        threading.Timer(0.05, client.close).start()
        with pytest.raises(RuntimeError, match="this client is closed"):
            fetch(client, server.url)
        held.cut()


def test_interrupted_read_frees_its_place():
    client = blocking.Connections()
    main = threading.main_thread().ident

    with RawServer(silent) as server:
        response = client.exchange(a_call(server.url), Timeline())
        threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            response.read()
        assert blocking.counts() == (0, 0, 0)
        assert server.wait_closed(1)


def test_interrupted_wait_for_a_place_leaves_the_queue():
    client = blocking.Connections(NetOptions(max_connections=1))
    main = threading.main_thread().ident

    with RawServer(silent) as server:
        held = client.exchange(a_call(server.url), Timeline())
        threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            fetch(client, server.url)
        assert blocking.counts() == (0, 1, 0)
        held.cut()


def test_replies_in_a_cycle_are_cut_when_they_are_collected():
    """A finalizer may run inside the pool's own lock; it must neither block nor be lost."""
    client = blocking.Connections()

    with RawServer(silent) as server:
        for _ in range(5):
            cycle: list[object] = [client.exchange(a_call(server.url), Timeline())]
            cycle.append(cycle)
            del cycle
        gc.collect()
        assert server.wait_closed(5)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_child_opens_its_own_connections_and_leaves_the_parents_alone():
    client = blocking.Connections()

    with RawServer(forever(lambda request: reply(request[-6:]))) as server:
        fetch(client, server.url, body=b"parent")
        child = os.fork()
        if child == 0:
            try:
                ok = blocking.counts() == (0, 0, 0)
                ok = ok and fetch(client, server.url, body=b"child!") == b"child!"
            finally:
                os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        timeline = Timeline()
        assert client.exchange(a_call(server.url, body=b"parent"), timeline).read() == b"parent"
        blocking.close_idle()

    assert timeline.reused
    assert server.num_connections == 2


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_stream_that_a_thread_reads_survives_a_forked_child():
    client = blocking.Connections()
    go = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED + b"1\r\na\r\n")
        go.wait(5)
        peer.send(b"1\r\nb\r\n0\r\n\r\n")

    with RawServer(script) as server:
        response = client.exchange(a_call(server.url), Timeline())
        assert response.read() == b"a"
        with ThreadPoolExecutor(1) as threads:
            reading = threads.submit(response.read)
            until(lambda: response._connection._is_busy)
            child = os.fork()
            if child == 0:
                response.cut()
                client.close()
                os._exit(0)
            os.waitpid(child, 0)
            go.set()
            assert reading.result(5) == b"b"
