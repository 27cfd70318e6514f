"""Connections on loopback: reuse, bodies both ways and the timeline, in both bodies of `net/`."""

from __future__ import annotations

import socket
import threading

import pytest

from smartclient._errors import ExchangeError

from .net_sides import read_all
from .raw_server import CHUNKED, Peer, RawServer, forever, reply

# Reuse


def test_ten_calls_share_one_connection(side):
    async def scenario():
        client = side.client()
        for number in range(10):
            assert await client.fetch(server.url, body=b"%d" % number) == b"%d" % number
        assert side.counts() == (1, 0, 0)

    with RawServer(forever(lambda request: reply(request[-1:]))) as server:
        side.run(scenario)

    assert server.num_connections == 1


def test_connection_is_free_as_soon_as_its_reply_is_here(side):
    async def scenario():
        client = side.client()
        response, _ = await client.send(server.url)
        await response.read()
        assert side.counts().active == 0

    with RawServer(forever(reply(b"unread"))) as server:
        side.run(scenario)


def test_two_clients_with_equal_options_share_connections(side):
    async def scenario():
        await side.client().fetch(server.url)
        await side.client().fetch(server.url)

    with RawServer(forever(reply())) as server:
        side.run(scenario)

    assert server.num_connections == 1


def test_idle_connections_outlive_the_client_that_opened_them(side):
    async def scenario():
        first = side.client()
        await first.fetch(server.url)
        await first.close()
        _, timeline = await side.client().send(server.url)
        assert timeline.reused

    with RawServer(forever(reply())) as server:
        side.run(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(reply(b"ok", b"connection: close"), id="connection-close"),
        pytest.param(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", id="http-1.0"),
        pytest.param(reply(b"ok") + b"surplus", id="bytes-after-the-end"),
        pytest.param(reply(b"ok", b"keep-alive: timeout=0"), id="server-keeps-nothing"),
    ],
)
def test_connection_that_cannot_go_on_is_not_reused(side, answer):
    async def scenario():
        client = side.client()
        assert await client.fetch(server.url) == b"ok"
        assert await client.fetch(server.url) == b"ok"

    with RawServer(forever(answer)) as server:
        side.run(scenario)

    assert server.num_connections == 2


# Ways a body ends


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        pytest.param(reply(b"counted"), b"counted", id="length"),
        pytest.param(CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde", id="chunked"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\nx-sum: 1\r\n\r\n", b"a", id="trailers"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="204"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + reply(b"later"), b"later", id="interim"),
    ],
)
def test_body_is_read_to_its_end_and_the_connection_kept(side, answer, body):
    async def scenario():
        assert await side.client().fetch(server.url) == body
        assert side.counts() == (1, 0, 0)

    with RawServer(forever(answer)) as server:
        side.run(scenario)


def test_body_may_end_with_the_connection(side):
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nuntil ")
        peer.send(b"the end")

    async def scenario():
        assert await side.client().fetch(server.url) == b"until the end"
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)


def test_head_reply_has_no_body_whatever_its_length_says(side):
    async def scenario():
        client = side.client()
        response, _ = await client.send(server.url, method="HEAD", body=b"")
        assert (response.headers.get("content-length"), await response.read()) == ("2", b"")
        assert side.counts() == (1, 0, 0)

    with RawServer(forever(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")) as server:
        side.run(scenario)


# Request bodies


def test_iterable_body_travels_in_chunks(side):
    async def scenario():
        sent = await side.client().fetch(server.url, body=iter([b"one", b"", b"two"]))
        assert sent.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")

    with RawServer(forever(reply)) as server:
        side.run(scenario)


def test_large_body_arrives_whole(side):
    body = bytes(range(256)) * 20_000

    async def scenario():
        sent = await side.client().fetch(server.url, body=body)
        assert sent.partition(b"\r\n\r\n")[2] == body

    with RawServer(forever(reply)) as server:
        side.run(scenario)


def test_refusal_that_comes_during_the_upload_is_read(side):
    """A server that answers 413 does not read the rest; its reason must reach the caller."""

    def script(peer: Peer) -> None:
        peer.head()
        peer.send(reply(b"too large", b"connection: close", status=b"413 Too Large"))
        peer.sock.shutdown(socket.SHUT_WR)
        peer.until_closed()

    async def scenario():
        response, _ = await side.client().send(server.url, body=b"x" * 8_000_000)
        assert (response.status, await read_all(response)) == (413, b"too large")
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)


def test_refusal_of_a_server_that_reads_no_more_is_read(side):
    def script(peer: Peer) -> None:
        peer.head()
        peer.send(reply(b"too large", b"connection: close", status=b"413 Too Large"))
        done.wait(5)

    async def scenario():
        body = b"x" * 30_000_000
        response, timeline = await side.client().send(server.url, body=body)
        assert (response.status, await read_all(response)) == (413, b"too large")
        assert timeline.send.duration < 5  # not the 60 s that a write may take

    done = threading.Event()
    with RawServer(script) as server:
        side.run(scenario)
        done.set()


def test_refusal_of_a_server_that_resets_during_the_upload_is_read_where_it_has_come(side):
    def script(peer: Peer) -> None:
        peer.head()
        peer.send(reply(b"too large", b"connection: close", status=b"413 Too Large"))
        peer.close()

    async def scenario():
        try:
            response, _ = await side.client().send(server.url, body=b"x" * 8_000_000)
            outcome = (response.status, await read_all(response))
        except ExchangeError as error:
            outcome = (error.kind, error.sent)
        assert outcome in ((413, b"too large"), ("write", "part"))
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)


# The record


def test_timeline_tells_what_happened_in_order(side):
    async def scenario():
        client = side.client()
        _, first = await client.send(server.url)
        _, second = await client.send(server.url)
        marks = [first.tcp.start, first.tcp.end, first.send.start, first.send.end]
        marks += [first.first_byte, first.last_byte]
        assert marks == sorted(marks)
        assert (first.pool, first.dns, first.tls) == (None, None, None)
        assert (first.reused, second.reused, second.tcp) == (False, True, None)
        assert first.protocol == "HTTP/1.1"

    with RawServer(forever(reply())) as server:
        side.run(scenario)


def test_look_up_of_a_name_is_timed(side):
    async def scenario():
        _, timeline = await side.client().send(server.url.replace("127.0.0.1", "localhost"))
        assert timeline.dns.start <= timeline.dns.end <= timeline.tcp.start

    with RawServer(forever(reply())) as server:
        side.run(scenario)
