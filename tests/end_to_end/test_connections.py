"""Connections on loopback: both bodies of `net/`, against servers that behave and that do not."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from smartclient._call import Headers, Timeout
from smartclient._errors import ExchangeError

from .net_sides import Side, read_all
from .raw_server import Peer, RawServer, forever, reply

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(params=["blocking", "asyncio"])
def side(request: pytest.FixtureRequest) -> Side:
    return Side(request.param)


def refused(error: pytest.ExceptionInfo[ExchangeError]) -> tuple[str, str, bool]:
    return error.value.kind, error.value.sent, error.value.reused


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


def test_pool_timeout_names_the_limit_and_who_waits(side):
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED)
        peer.until_closed()

    async def scenario():
        client = side.client(max_connections=1)
        held, _ = await client.send(server.url)
        words = "1 of at most 1 are active, 0 other calls are queued"
        with pytest.raises(ExchangeError, match=words) as error:
            await client.send(server.url, timeout=Timeout(pool=0.05))
        assert refused(error) == ("pool_timeout", "nothing", False)
        held.cut()
        assert side.counts() == (0, 0, 0)

    with RawServer(script) as server:
        side.run(scenario)


# Leaving


def streaming(peer: Peer) -> None:
    while peer.request() is not None:
        peer.send(CHUNKED + b"5\r\nhello\r\n")


@pytest.mark.parametrize("leave", ["close", "cut", "collected"])
def test_reply_left_unread_stops_the_server_and_frees_its_place(side, leave):
    async def scenario():
        response, _ = await side.client().send(server.url)
        if leave == "close":
            await response.close()
        elif leave == "cut":
            response.cut()
        del response
        await asyncio.sleep(0)
        assert side.counts() == (0, 0, 0)
        assert await asyncio.to_thread(server.wait_closed, 1)

    with RawServer(streaming) as server:
        side.run(scenario)


def test_finished_stream_keeps_its_connection_though_its_end_comes_later(side):
    finished = threading.Event()

    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.send(CHUNKED + b"4\r\ndone\r\n")
            finished.wait(5)
            finished.clear()
            peer.send(b"0\r\n\r\n")

    async def scenario():
        client = side.client()
        for _ in range(10):
            response, timeline = await client.send(server.url)
            assert await response.read() == b"done"
            await response.close(finished=True)
            assert timeline.last_byte is not None
            finished.set()

    with RawServer(script) as server:
        side.run(scenario)

    assert server.num_connections == 1


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"", id="never-ends"),
        pytest.param(b"20000\r\n" + b"x" * 0x20000 + b"\r\n0\r\n\r\n", id="more-than-64-KiB"),
        pytest.param(b"nonsense\r\n", id="breaks"),
    ],
)
def test_finished_stream_with_too_much_left_is_given_up(side, rest):
    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.send(CHUNKED + b"4\r\ndone\r\n" + rest)

    async def scenario():
        client = side.client()
        for _ in range(2):
            response, _ = await client.send(server.url)
            await response.close(finished=True)
        await response.close()

    with RawServer(script) as server:
        side.run(scenario)

    assert server.num_connections == 2


def test_closing_a_client_cuts_its_own_streams_only(side):
    go = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED + b"1\r\na\r\n")
        go.wait(5)
        peer.send(b"1\r\nb\r\n0\r\n\r\n")

    async def scenario():
        leaver, stayer = side.client(), side.client()
        cut, _ = await leaver.send(server.url)
        kept, _ = await stayer.send(server.url)
        await leaver.close()
        await leaver.close()
        go.set()
        assert await read_all(kept) == b"ab"
        with pytest.raises(ExchangeError, match="cut on this side") as error:
            await read_all(cut)
        assert error.value.kind == "closed"

    with RawServer(script) as server:
        side.run(scenario)


def test_closed_client_refuses_calls(side):
    async def scenario():
        client = side.client()
        await client.close()
        with pytest.raises(RuntimeError, match="this client is closed"):
            await client.fetch("http://127.0.0.1:9/")

    side.run(scenario)


def test_header_that_http_cannot_carry_is_refused_before_anything_is_opened(side):
    async def scenario():
        with pytest.raises(ValueError, match="x-api-key") as error:
            await side.client().fetch(server.url, headers=Headers({"x-api-key": "secret\n"}))
        assert "secret" not in str(error.value)

    with RawServer(forever(reply())) as server:
        side.run(scenario)

    assert server.num_connections == 0


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
