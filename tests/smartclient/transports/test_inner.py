"""A transport that the user brought, under our policies, in both families."""

from __future__ import annotations

import gc
import weakref
from collections import deque

import httpx
import httpx2
import msgspec
import pytest

from smartclient._call import Origin, Timeline
from smartclient._errors import ExchangeError
from smartclient.testing import a_call
from smartclient.transports.inner import (
    AsyncInner,
    Inner,
    address_of,
    as_family,
    body_of,
    headers_of,
)
from tests.smartclient.fakes import ASYNCIO, TRIO, World

URL = "https://a.example/v1/messages?beta=true"


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def family(request):
    return request.param


class Pieces:
    """A stream of a family: its pieces, of which an exception is raised."""

    def __init__(self, pieces) -> None:
        self._pieces, self.num_closed = deque(pieces), 0

    def __iter__(self):
        return self

    def __next__(self):
        if not self._pieces:
            raise StopIteration
        piece = self._pieces.popleft()
        if isinstance(piece, BaseException):
            raise piece
        return piece

    # No generator: that would end with the event loop, and each test step has one of its own.
    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self._pieces:
            raise StopAsyncIteration
        return next(self)

    def close(self) -> None:
        self.num_closed += 1

    async def aclose(self) -> None:
        self.num_closed += 1


class Foreign:
    """A transport that answers with `pieces`, or raises.

    Attributes:
        requests: What it was given.
    """

    def __init__(self, family, *pieces, error=None, **facts) -> None:
        self._family, self._error, self._facts = family, error, facts
        kinds = (Pieces, family.SyncByteStream, family.AsyncByteStream)
        self.stream = type("Stream", kinds, {})(pieces)
        self.requests = []

    def handle_request(self, request):
        self.requests.append(request)
        if self._error is not None:
            raise self._error
        facts = {"status_code": 200, "headers": [("content-type", "text/plain")]} | self._facts
        return self._family.Response(stream=self.stream, **facts)

    async def handle_async_request(self, request):
        return self.handle_request(request)


def a_request(family, content=b"{}", **headers):
    return family.Request("POST", URL, content=content, headers=headers)


def as_call(request, **changes):
    """What our policies see of `request`."""
    given = {"headers": headers_of(request), "body": body_of(request)} | changes
    return msgspec.structs.replace(a_call(), **given)


def exchanged(world: World, family, transport, *, request=None, **changes):
    """What `transport` answers, as a connector gives it."""
    request = request or a_request(family)
    connector = (AsyncInner if world.is_async else Inner)(family, transport, request)
    return world.do(connector.exchange(as_call(request, **changes), Timeline()))


# Requests, as a family makes them.


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        pytest.param(URL, Origin("https", "a.example", 443), "/v1/messages?beta=true", id="https"),
        pytest.param("http://a.example", Origin("http", "a.example", 80), "/", id="http"),
        pytest.param("http://[::1]:81/x", Origin("http", "::1", 81), "/x", id="ipv6-and-port"),
        pytest.param("http://a/é", Origin("http", "a", 80), "/%C3%A9", id="quoted"),
        pytest.param("http://é.a", Origin("http", "xn--9ca.a", 80), "/", id="name-outside-ascii"),
    ],
)
def test_an_address_is_taken_from_the_request(family, url, origin, target):
    assert address_of(family.Request("POST", url)) == (origin, target)


def test_a_body_is_bytes_or_a_stream_that_nobody_has_read(family):
    unread = a_request(family, content=iter([b"x"]))

    assert body_of(a_request(family, content=b"abc")) == b"abc"
    assert body_of(unread) is unread.stream


def test_a_form_is_read_so_that_it_can_be_sent_again(family):
    request = family.Request("POST", URL, files={"file": b"abc"})

    body = body_of(request)

    assert b"abc" in body
    assert body_of(request) is body
    assert len(body) == int(request.headers["content-length"])


def test_a_form_of_unknown_length_is_left_a_stream(family):
    request = a_request(family, content=Pieces([b"x"]))
    request.headers["content-length"] = str(65 << 20)

    assert body_of(request) is request.stream


# Replies.


def test_a_reply_is_what_the_transport_answered(world, family):
    extensions = {"http_version": b"HTTP/2", "reason_phrase": b"Fine"}
    transport = Foreign(family, b"ab", b"", b"cd", status_code=203, extensions=extensions)

    response = exchanged(world, family, transport)
    pieces = [world.do(response.read()) for _ in range(3)]

    assert (response.status, response.reason, response.protocol) == (203, "Fine", "HTTP/2")
    assert response.headers.get("Content-Type") == "text/plain"
    assert pieces == [b"ab", b"cd", b""]


def test_a_reply_without_extensions_is_http_1(world, family):
    response = exchanged(world, family, Foreign(family))

    assert (response.reason, response.protocol) == ("", "HTTP/1.1")


def test_a_reply_that_is_at_its_end_is_closed(world, family):
    transport = Foreign(family, b"ab")
    response = exchanged(world, family, transport)

    assert [world.do(response.read()) for _ in range(3)] == [b"ab", b"", b""]
    world.do(response.close())

    assert transport.stream.num_closed == 1


@pytest.mark.parametrize("finished", [False, True])
def test_a_reply_is_closed_once(world, family, finished):
    transport = Foreign(family, b"ab")
    response = exchanged(world, family, transport)

    world.do(response.close(finished=finished))
    world.do(response.close(finished=finished))

    assert transport.stream.num_closed == 1
    assert world.do(response.read()) == b""


@pytest.mark.parametrize("async_world", [ASYNCIO, TRIO], ids=["asyncio", "trio"])
def test_closing_ends_the_streams_generator(family, async_world):
    """Trio warns of one that is left half-read to the collector."""
    ended = []

    class Stream(family.AsyncByteStream):
        async def __aiter__(self):
            try:
                yield b"ab"
                yield b"cd"
            finally:
                ended.append(True)

    async def read_and_close():
        transport = Foreign(family)
        transport.stream = Stream()
        request = a_request(family)
        connector = AsyncInner(family, transport, request)
        response = await connector.exchange(as_call(request), Timeline())
        assert await response.read() == b"ab"
        await response.close()
        return ended[:]

    assert async_world.do(read_and_close()) == [True]


def test_a_reply_that_is_cut_is_dropped(world, family):
    response = exchanged(world, family, Foreign(family, b"ab"))

    response.cut()
    response.cut()

    assert world.do(response.read()) == b""


def test_a_reply_that_is_cut_holds_nothing_of_the_transport(world, family):
    """Its generator ends when it is dropped, and the connection with it."""
    transport = Foreign(family, b"ab", b"cd")
    response = exchanged(world, family, transport)
    world.do(response.read())

    response.cut()
    stream = weakref.ref(transport.stream)
    transport.stream = None
    gc.collect()  # the families' responses and their streams hold each other

    assert stream() is None


def test_an_untouched_body_is_sent_as_the_familys_own_request(world, family):
    transport, request = Foreign(family), a_request(family)

    exchanged(world, family, transport, request=request)

    assert transport.requests == [request]


def test_changed_headers_are_sent_with_the_rest_as_it_was(world, family):
    transport, request = Foreign(family), a_request(family, content=b"body", x_key="k")

    changed = headers_of(request).replaced(count="1")
    exchanged(world, family, transport, request=request, headers=changed)

    sent = transport.requests[0]
    assert (sent.headers["count"], sent.headers["x_key"]) == ("1", "k")
    assert (sent.content, sent.url) == (b"body", request.url)
    assert "count" not in request.headers


def test_a_changed_body_is_sent_with_its_own_length(world, family):
    transport = Foreign(family)
    request = a_request(family, content=b"a longer body", x_key="k")

    exchanged(world, family, transport, request=request, body=b"short")

    sent = transport.requests[0]
    assert (sent.content, sent.headers["content-length"]) == (b"short", "5")
    assert (sent.url, sent.headers["x_key"]) == (request.url, "k")
    assert sent.extensions == request.extensions


# Errors.


@pytest.mark.parametrize(
    ("name", "kind", "sent"),
    [
        pytest.param("ConnectError", "connect", "nothing", id="connect"),
        pytest.param("ConnectTimeout", "connect_timeout", "nothing", id="connect-timeout"),
        pytest.param("PoolTimeout", "pool_timeout", "nothing", id="pool-timeout"),
        pytest.param("UnsupportedProtocol", "unsupported", "nothing", id="unsupported"),
        pytest.param("WriteError", "write", "all", id="write"),
        pytest.param("WriteTimeout", "write_timeout", "all", id="write-timeout"),
        pytest.param("ReadError", "read", "all", id="read"),
        pytest.param("ReadTimeout", "read_timeout", "all", id="read-timeout"),
        pytest.param("RemoteProtocolError", "closed", "all", id="closed"),
        pytest.param("LocalProtocolError", "protocol", "all", id="our-own-fault"),
        pytest.param("ProxyError", "connect", "nothing", id="proxy"),
        pytest.param("CloseError", "read", "all", id="unknown"),
    ],
)
def test_an_error_of_the_family_has_a_kind(world, family, name, kind, sent):
    original = getattr(family, name)("it broke")

    with pytest.raises(ExchangeError, match="it broke") as caught:
        exchanged(world, family, Foreign(family, error=original))

    assert (caught.value.kind, caught.value.sent) == (kind, sent)
    assert caught.value.origin == "https://a.example:443"
    assert as_family(caught.value, family, None) is original


def test_an_error_of_the_family_keeps_its_own_cause(world, family):
    """It is raised again at the end, and must not become its own cause."""
    original = family.ReadError("it broke")
    original.__cause__ = OSError("reset")

    with pytest.raises(ExchangeError) as caught:
        exchanged(world, family, Foreign(family, error=original))

    assert caught.value.__cause__ is original.__cause__


def test_an_error_without_words_is_named(world, family):
    with pytest.raises(ExchangeError, match=r"^ReadError$"):
        exchanged(world, family, Foreign(family, error=family.ReadError("")))


def test_a_reply_that_breaks_off_has_the_familys_error(world, family):
    original = family.ReadError("it broke")
    response = exchanged(world, family, Foreign(family, b"ab", original))

    world.do(response.read())
    with pytest.raises(ExchangeError) as caught:
        world.do(response.read())

    assert as_family(caught.value, family, None) is original


@pytest.mark.parametrize("error", [ValueError("a mock's own"), KeyboardInterrupt()])
def test_what_is_no_error_of_the_family_passes(world, family, error):
    response = exchanged(world, family, Foreign(family, b"ab", error))

    world.do(response.read())
    with pytest.raises(type(error)):
        world.do(response.read())
    with pytest.raises(type(error)):
        exchanged(world, family, Foreign(family, error=error))


@pytest.mark.parametrize("world", [World(), ASYNCIO], ids=["blocking", "asyncio"])
def test_a_call_that_is_cancelled_inside_may_have_been_sent(family, world):
    """A foreign transport does not tell how far it came, and what was sent may be billed."""
    foreign, timeline = Foreign(family, error=KeyboardInterrupt()), Timeline()
    inner = (AsyncInner if world.is_async else Inner)(family, foreign, a_request(family))

    with pytest.raises(KeyboardInterrupt):
        world.do(inner.exchange(a_call(), timeline))

    assert timeline.send is not None
