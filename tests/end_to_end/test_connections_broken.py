"""Connections on loopback that break, are refused or take too long: the errors say how."""

from __future__ import annotations

import socket
import threading

import pytest

from smartclient._call import Headers, Timeline, Timeout
from smartclient._errors import ExchangeError

from .net_sides import a_call
from .raw_server import CHUNKED, Peer, RawServer, forever, reply


def refused(error: pytest.ExceptionInfo[ExchangeError]) -> tuple[str, str, bool]:
    return error.value.kind, error.value.sent, error.value.reused


def test_header_that_http_cannot_carry_is_refused_before_anything_is_opened(side):
    async def scenario():
        with pytest.raises(ValueError, match="x-api-key") as error:
            await side.client().fetch(server.url, headers=Headers({"x-api-key": "secret\n"}))
        assert "secret" not in str(error.value)

    with RawServer(forever(reply())) as server:
        side.run(scenario)

    assert server.num_connections == 0


# Connections that break


def test_connection_closed_while_idle_is_replaced_unseen(side):
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(reply())

    async def scenario():
        client = side.client()
        await client.fetch(server.url)
        server.wait_closed(1)
        response, timeline = await client.send(server.url)
        assert (response.status, timeline.reused) == (200, False)

    with RawServer(script) as server:
        side.run(scenario)

    assert server.num_connections == 2


def test_bytes_that_nobody_asked_for_are_never_taken_for_a_reply(side):
    stray = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(reply())
        if peer.number == 1:
            peer.send(reply(b"stray"))
            stray.set()
            peer.until_closed()

    async def scenario():
        client = side.client()
        assert await client.fetch(server.url) == b"ok"
        stray.wait(5)
        assert await client.fetch(server.url) == b"ok"

    with RawServer(script) as server:
        side.run(scenario)

    assert server.num_connections == 2


def test_close_after_a_complete_write_is_an_error_and_not_sent_twice(side):
    requests = []

    def script(peer: Peer) -> None:
        requests.append(peer.request())
        peer.send(reply())
        requests.append(peer.request())

    async def scenario():
        client = side.client()
        await client.fetch(server.url)
        with pytest.raises(ExchangeError, match="before any reply") as error:
            await client.fetch(server.url)
        assert refused(error) == ("closed", "all", True)
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)

    assert len(requests) == 2


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        pytest.param(b"", "closed", "before any reply", id="nothing"),
        pytest.param(b"HTTP/1.1 200", "closed", "middle of the reply's head", id="half-a-head"),
        pytest.param(reply(b"abcd")[:-1], "closed", "after 3 of 4 bytes", id="short-body"),
        pytest.param(CHUNKED + b"5\r\nab", "closed", "after 2 bytes", id="short-chunk"),
        pytest.param(b"220 mail.example\r\n", "protocol", "not HTTP/1.1", id="another-protocol"),
        pytest.param(CHUNKED + b"zz\r\n", "protocol", "malformed chunk", id="no-chunk-size"),
        pytest.param(b"HTTP/1.1 200 OK\r\n:\r\n\r\n", "protocol", "malformed head", id="no-name"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\na: " + b"x" * 70_000, "limit", "64 KiB", id="endless-header"
        ),
        pytest.param(
            b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            "unsupported",
            "switched protocols",
            id="upgrade",
        ),
    ],
)
def test_reply_that_is_none_is_a_typed_error(side, answer, kind, words):
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(answer)

    async def scenario():
        with pytest.raises(ExchangeError, match=words) as error:
            await side.client().fetch(server.url)
        assert refused(error) == (kind, "all", False)
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)


def test_reset_in_the_middle_of_a_body_is_a_read_error(side):
    go = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED + b"2\r\nab\r\n")
        go.wait(5)
        peer.reset()

    async def scenario():
        response, _ = await side.client().send(server.url)
        assert await response.read() == b"ab"
        go.set()
        with pytest.raises(ExchangeError, match="broke in the middle") as error:
            await response.read()
        assert refused(error) == ("read", "all", False)
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)


def test_refused_connection_says_so(side):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"

    async def scenario():
        with pytest.raises(ExchangeError, match="Connection refused") as error:
            await side.client().fetch(url)
        assert refused(error) == ("connect", "nothing", False)
        assert side.counts() == (0, 0, 0)

    side.run(scenario)


def test_host_name_that_cannot_be_one_is_a_resolve_error(side):
    async def scenario():
        with pytest.raises(ExchangeError, match="has no address") as error:
            await side.client().fetch("http://" + "a" * 64 + ".example/")
        assert error.value.kind == "resolve"
        assert side.counts() == (0, 0, 0)

    side.run(scenario)


# Timeouts


def test_read_timeout_names_itself_and_stops_the_server(side):
    def script(peer: Peer) -> None:
        peer.request()
        peer.until_closed()

    async def scenario():
        words = r"silent for 0.1 s while the head of the reply was awaited \(timeout.read is 0.1 s"
        with pytest.raises(ExchangeError, match=words) as error:
            await side.client().fetch(server.url, timeout=Timeout(read=0.1))
        assert refused(error) == ("read_timeout", "all", False)
        assert str(server.port) in str(error.value)
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)
        assert server.wait_closed(1)


def test_write_timeout_says_how_much_was_sent(side):
    def script(peer: Peer) -> None:
        peer.head()
        done.wait(5)

    async def scenario():
        timeout = Timeout(write=0.1)
        with pytest.raises(ExchangeError, match=r"timeout\.write is 0.1 s") as error:
            await side.client().fetch(server.url, body=b"x" * 30_000_000, timeout=timeout)
        assert refused(error) == ("write_timeout", "part", False)
        assert side.counts() == (0, 0, 0)

    done = threading.Event()
    with RawServer(script) as server:
        side.run(scenario)
        done.set()


def test_connect_timeout_covers_the_handshake(side):
    """A server that accepts and is silent must not hold a call longer than `connect`."""

    async def scenario():
        url = server.url.replace("http:", "https:")
        with pytest.raises(ExchangeError, match="stage tls") as error:
            await side.client().fetch(url, timeout=Timeout(connect=0.2))
        assert refused(error) == ("connect_timeout", "nothing", False)
        assert side.counts() == (0, 0, 0)

    with RawServer(Peer.until_closed) as server:
        side.run(scenario)
        assert server.wait_closed(1)


def test_call_that_found_no_free_connection_tells_how_long_it_waited(side):
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED)
        peer.until_closed()

    async def scenario():
        client, timeline = side.client(max_connections=1), Timeline()
        held, _ = await client.send(server.url)
        call = a_call(server.url, timeout=Timeout(pool=0.05))
        with pytest.raises(ExchangeError):
            await client.exchange(call, timeline)
        assert timeline.pool.duration >= 0.04
        held.cut()

    with RawServer(script) as server:
        side.run(scenario)


def test_pool_timeout_names_the_limit_and_who_waits(side):
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED)
        peer.until_closed()

    async def scenario():
        client = side.client(max_connections=1)
        held, _ = await client.send(server.url)
        words = (
            r"at most 1 are active, longest POST \S+ for 0\.\d s; 0 other calls of it are queued"
        )
        with pytest.raises(ExchangeError, match=words) as error:
            await client.send(server.url, timeout=Timeout(pool=0.05))
        assert refused(error) == ("pool_timeout", "nothing", False)
        held.cut()
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)
