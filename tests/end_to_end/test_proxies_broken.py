"""Proxies that refuse, stall, die or talk nonsense: one typed error each, and nothing left."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Iterator

import pytest

from smartclient._call import Timeout
from smartclient._errors import ExchangeError
from smartclient.net.proxies import Proxies
from smartclient.net.proxy import Proxy, proxy_of

from .proxies import HttpProxy, SocksProxy
from .raw_server import RawServer, forever, reply

SECRET = "very-s3cret"
SECURE = "https://origin.test/v1/messages"
SHORT = Timeout(connect=0.3, pool=1.0, write=1.0, read=1.0)


def through(url: str) -> Proxies:
    proxy = proxy_of(url)
    assert isinstance(proxy, Proxy)
    return Proxies.all(proxy)


def with_login(server: RawServer, scheme: str = "http") -> str:
    return f"{scheme}://me:{SECRET}@127.0.0.1:{server.port}"


def shown(error: BaseException) -> str:
    """All that an error and its causes say, and what our frames hold."""
    said, one = "".join(traceback.format_exception(error)), error
    while one is not None:
        said += f"{one!r} {one.args} {one.__dict__}"
        for frame, _ in traceback.walk_tb(one.__traceback__):
            if "/smartclient/" in frame.f_code.co_filename:
                said += repr(list(frame.f_locals.values()))
        one = one.__cause__ or one.__context__
    return said


def refused(side, url: str, proxy: str, **changes) -> ExchangeError:
    """The error of a call, which leaves no connection behind and shows no secret."""
    caught: list[ExchangeError] = []

    async def scenario():
        with pytest.raises(ExchangeError) as error:
            await side.client(proxies=through(proxy)).fetch(url, **changes)
        caught.append(error.value)
        assert (side.counts().active, side.counts().queued) == (0, 0)

    side.run(scenario)
    for secret in (SECRET, "bWU6dmVyeS1zM2NyZXQ="):
        assert secret not in shown(caught[0])
    return caught[0]


def says(*pieces: bytes) -> RawServer:
    """A proxy that reads a head, and says this."""

    def script(peer):
        peer.head()
        for piece in pieces:
            peer.send(piece)

    return RawServer(script)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        pytest.param(b"HTTP/1.1 407 No\r\n\r\n", "proxy", "does not accept the user", id="login"),
        pytest.param(b"HTTP/1.1 403 No\r\n\r\n", "proxy", "does not allow this host", id="host"),
        pytest.param(b"HTTP/1.1 502 No\r\n\r\n", "connect", "could not reach the", id="origin"),
        pytest.param(b"", "connect", "closed the connection before any reply", id="dies-at-once"),
        pytest.param(b"HTTP/1.1 200", "connect", "in the middle of the reply's head", id="dies"),
        pytest.param(b"SSH-2.0\r\n", "proxy", "bytes that are not HTTP/1.1", id="garbage"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nhello", "proxy", "before anything", id="early"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", "tls", "no TLS with https://origin", id="no-way"),
    ],
)
def test_a_tunnel_that_does_not_open_is_one_typed_error(side, answer, kind, message):
    with says(answer) as proxy:
        error = refused(side, SECURE, with_login(proxy))

    assert (error.kind, error.sent, error.origin) == (kind, "nothing", "https://origin.test:443")
    assert message in str(error)


def test_a_head_without_end_is_cut(side):
    def script(peer):
        peer.head()
        for number in itertools.count():
            peer.send(b"HTTP/1.1 200 OK\r\n" if not number else b"x-field: more and more\r\n")

    with RawServer(script) as proxy:
        error = refused(side, SECURE, with_login(proxy))

    assert "sent more than 64 KiB of header fields" in str(error)


@pytest.mark.parametrize("scheme", ["http", "socks5h", "https"])
def test_a_proxy_that_says_nothing_is_left_in_time(side, scheme):
    with RawServer(lambda peer: peer.until_closed()) as proxy:
        error = refused(side, SECURE, with_login(proxy, scheme), timeout=SHORT)
        assert proxy.wait_closed(1)

    assert error.kind == "connect_timeout"
    assert f"through the proxy {scheme}://127.0.0.1:{proxy.port} after 0." in str(error)
    assert "in stage proxy (timeout.connect is 0.3 s" in str(error)


def test_an_origin_that_says_nothing_behind_it_is_named_by_its_stage(side):
    def script(peer):
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        peer.until_closed()

    with RawServer(script) as proxy:
        error = refused(side, SECURE, with_login(proxy), timeout=SHORT)

    assert "in stage tls" in str(error)


def test_a_reset_in_the_middle_says_whose_it_was(side):
    def script(peer):
        peer.head()
        peer.send(b"HTTP/1.1 2")
        peer.reset()

    with RawServer(script) as proxy:
        error = refused(side, SECURE, with_login(proxy))

    assert error.kind == "connect"
    assert f"the proxy http://127.0.0.1:{proxy.port}" in str(error)


def test_a_proxy_that_is_not_there_is_named_and_the_origin_too(side):
    with says() as gone:
        url = with_login(gone)

    error = refused(side, SECURE, url)

    assert error.kind == "connect"
    assert f"no connection to the proxy http://127.0.0.1:{gone.port}, on the way to" in str(error)


def test_a_proxy_that_speaks_no_tls_is_named(side):
    with says(b"HTTP/1.1 400 Bad\r\n\r\n") as proxy:
        error = refused(side, SECURE, with_login(proxy, "https"), timeout=SHORT)

    assert error.kind in ("tls", "connect_timeout")
    assert f"the proxy https://127.0.0.1:{proxy.port}" in str(error)


def test_a_forwarded_request_without_the_right_login_is_the_proxys_refusal(side):
    with HttpProxy("someone:else") as proxy:
        error = refused(side, "http://origin.test/v1/messages", with_login(proxy))

    assert (error.kind, error.sent) == ("proxy", "nothing")
    assert "does not accept the user and password that it was given (407)" in str(error)


@pytest.mark.parametrize(
    ("login", "reply", "message"),
    [
        pytest.param("someone:else", 0, "does not accept the user and password", id="login"),
        pytest.param("", 2, "does not allow this host and port (SOCKS reply 2)", id="ruleset"),
        pytest.param("", 5, "was refused a connection by the origin", id="origin"),
    ],
)
def test_socks_that_refuses_says_why(side, login, reply, message):
    with SocksProxy(login, reply=reply) as proxy:
        error = refused(side, SECURE, with_login(proxy, "socks5h"))

    assert message in str(error)


@pytest.fixture
def plain() -> Iterator[RawServer]:
    with RawServer(forever(lambda request: reply())) as running:
        yield running


def test_calls_with_other_logins_share_no_connection(side, plain):
    async def scenario():
        for login in ("me:a", "me:b", "me:a"):
            url = f"http://{login}@127.0.0.1:{proxy.port}"
            await side.client(proxies=through(url)).fetch(plain.url)

    with HttpProxy() as proxy:
        side.run(scenario)

    assert proxy.num_connections == 2


def test_a_tunnel_that_the_proxy_has_closed_while_idle_is_opened_again(side, plain):
    async def scenario():
        client = side.client(proxies=through(f"socks5h://127.0.0.1:{proxy.port}"))
        await client.fetch(once.url)
        assert proxy.wait_closed(1)
        _, timeline = await client.send(once.url)
        assert not timeline.reused

    def script(peer):
        peer.request()
        peer.send(reply())

    with RawServer(script) as once, SocksProxy() as proxy:
        side.run(scenario)

    assert proxy.num_connections == 2
