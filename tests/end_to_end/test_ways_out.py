"""How connections leave this machine: Unix sockets, local addresses, socket options."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import smartclient
from smartclient._errors import ExchangeError
from smartclient.net.proxies import Proxies
from smartclient.net.proxy import Proxy, proxy_of

from .proxies import HttpProxy, SocksProxy
from .raw_server import RawServer, forever, reply


class UnixServer(RawServer):
    """The same behind a Unix socket."""

    def __init__(self, script, path: Path) -> None:
        super().__init__(script)
        self._listener.close()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()


@pytest.fixture
def whence() -> Iterator[RawServer]:
    """Answers with the address that it was called from."""

    def script(peer):
        while peer.request() is not None:
            peer.send(reply(str(peer.sock.getpeername()[0]).encode()))

    with RawServer(script) as running:
        yield running


def through(address: str) -> Proxies:
    proxy = proxy_of(address)
    assert isinstance(proxy, Proxy)
    return Proxies.all(proxy)


def test_a_unix_socket_is_reached_whatever_the_host(side, tmp_path):
    path = tmp_path / "socket"

    async def scenario():
        client = side.client(uds=str(path))
        first = await client.fetch("http://model.test/v1/messages")
        _, timeline = await client.send("http://model.test/v1/messages")
        assert b"\r\nhost: model.test\r\n" in first
        assert timeline.reused

    with UnixServer(forever(reply), path) as server:
        side.run(scenario)

    assert server.num_connections == 1


def test_a_unix_socket_that_is_not_there_is_no_connection(side, tmp_path):
    async def scenario():
        with pytest.raises(
            ExchangeError, match=r"No such file or directory at the Unix socket .*none;"
        ) as error:
            await side.client(uds=str(tmp_path / "none")).fetch("http://model.test/")
        assert error.value.kind == "connect"

    side.run(scenario)


def test_a_local_address_is_called_from(side, whence):
    async def scenario():
        assert await side.client(local_address="127.0.0.2").fetch(whence.url) == b"127.0.0.2"
        assert await side.client().fetch(whence.url) == b"127.0.0.1"

    side.run(scenario)


def test_a_local_address_of_another_machine_is_no_connection(side, whence):
    async def scenario():
        with pytest.raises(
            ExchangeError, match=r"assign requested address at .*, from local_address 192"
        ):
            await side.client(local_address="192.0.2.1").fetch(whence.url)

    side.run(scenario)


class WatchedProxy(HttpProxy):
    """Knows where it was called from."""

    def _answer(self, peer) -> None:
        self.asked.append(peer.sock.getpeername()[0])
        super()._answer(peer)


def test_a_local_address_holds_for_the_connection_to_a_proxy(side, whence):
    async def scenario():
        client = side.client(proxies=through(proxy.address), local_address="127.0.0.2")
        await client.fetch(whence.url)

    with WatchedProxy() as proxy:
        side.run(scenario)

    assert proxy.asked[0] == "127.0.0.2"


@pytest.mark.parametrize("kind", [HttpProxy, SocksProxy])
def test_socket_options_hold_for_the_connection_to_a_proxy(side, whence, kind, monkeypatch):
    """Seen where the system is told: no peer can see them."""
    told: list[tuple[object, ...]] = []
    option = (socket.SOL_SOCKET, socket.SO_RCVBUF, 12_345)

    class Watched(socket.socket):
        def setsockopt(self, *option) -> None:
            told.append(option)
            super().setsockopt(*option)

    async def scenario():
        url = proxy.address if "://" in proxy.address else f"socks5h://{proxy.address}"
        client = side.client(proxies=through(url), socket_options=(option,))
        monkeypatch.setattr(socket, "socket", Watched)
        await client.fetch(whence.url)
        monkeypatch.undo()

    with kind() as proxy:
        side.run(scenario)

    assert option in told


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"proxy": "http://p.test", "uds": "/tmp/s"}, id="uds-and-proxy"),
        pytest.param({"local_address": "127.0.0.1", "uds": "/tmp/s"}, id="uds-and-address"),
    ],
)
@pytest.mark.parametrize("kind", [smartclient.Client, smartclient.AsyncClient])
def test_a_pair_that_cannot_be_is_refused_when_the_client_is_made(kind, options):
    with pytest.raises(ValueError, match="give"):
        kind(api_key="k", **options)
