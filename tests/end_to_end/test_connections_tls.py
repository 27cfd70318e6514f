"""TLS on loopback: whom we trust, and that it is said when we do not."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from smartclient._errors import ExchangeError
from smartclient.net.options import Identity

from .net_sides import read_all
from .raw_server import Peer, RawServer, forever, reply


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def serving(authority: trustme.CA, name: str = "127.0.0.1") -> RawServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return RawServer(forever(lambda request: reply(request[-2:])), tls=context)


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[RawServer]:
    with serving(authority) as running:
        yield running


def test_tls_is_timed_apart_from_tcp_and_reused(side, server, ca_file):
    async def scenario():
        client = side.client(ca_file=ca_file)
        _, first = await client.send(server.url)
        _, second = await client.send(server.url)
        assert first.tcp.end <= first.tls.start < first.tls.end <= first.send.start
        assert (second.reused, second.tls) == (True, None)

    side.run(scenario)

    assert server.num_connections == 1


def test_large_bodies_pass_both_ways(side, authority, ca_file):
    body = bytes(range(256)) * 8_000

    async def scenario():
        sent = await side.client(ca_file=ca_file).fetch(server.url, body=body)
        assert sent.partition(b"\r\n\r\n")[2] == body

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with RawServer(forever(reply), tls=context) as server:
        side.run(scenario)


def test_refusal_of_a_server_that_reads_no_more_is_read_through_tls(side, authority, ca_file):
    def script(peer: Peer) -> None:
        peer.head()
        peer.send(reply(b"too large", b"connection: close", status=b"413 Too Large"))
        done.wait(5)

    async def scenario():
        body = b"x" * 30_000_000
        response, timeline = await side.client(ca_file=ca_file).send(server.url, body=body)
        assert (response.status, await read_all(response)) == (413, b"too large")
        assert timeline.send.duration < 5  # not the 60 s that a write may take

    done, context = threading.Event(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with RawServer(script, tls=context) as server:
        side.run(scenario)
        done.set()


def test_unknown_authority_is_refused_and_the_trust_store_named(side, server, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)

    async def scenario():
        with pytest.raises(
            ExchangeError, match=r"trusted: certifi's list \(.*cacert.pem\)"
        ) as error:
            await side.client().fetch(server.url)
        assert (error.value.kind, error.value.sent) == ("certificate", "nothing")
        assert side.counts() == (0, 0, 0)

    side.run(scenario)


def test_authority_may_come_from_the_environment(side, server, ca_file, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", ca_file)

    async def scenario():
        assert await side.client().fetch(server.url) == b"{}"

    side.run(scenario)


def test_certificate_of_another_host_is_refused(side, authority, ca_file):
    async def scenario():
        with pytest.raises(ExchangeError, match="IP address mismatch"):
            await side.client(ca_file=ca_file).fetch(server.url)

    with serving(authority, "api.example.com") as server:
        side.run(scenario)


def test_own_context_is_used_and_its_connections_are_not_shared(side, server, ca_file):
    context = ssl.create_default_context(cafile=ca_file)

    async def scenario():
        await side.client(ssl_context=context).fetch(server.url)
        _, again = await side.client(ssl_context=context).send(server.url)
        _, other = await side.client(ca_file=ca_file).send(server.url)
        assert (again.reused, other.reused) == (True, False)

    side.run(scenario)


def test_plain_server_is_not_taken_for_a_tls_one(side, ca_file):
    async def scenario():
        url = server.url.replace("http:", "https:")
        with pytest.raises(ExchangeError, match="check that this port speaks https") as error:
            await side.client(ca_file=ca_file).fetch(url)
        assert error.value.kind == "tls"
        assert side.counts() == (0, 0, 0)

    def script(peer):
        peer.sock.recv(1000)
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with RawServer(script) as server:
        side.run(scenario)


def test_server_that_closes_while_idle_is_noticed_through_tls(side, authority, ca_file):
    def script(peer):
        peer.request()
        peer.send(reply())

    async def scenario():
        client = side.client(ca_file=ca_file)
        await client.fetch(server.url)
        server.wait_closed(1)
        _, timeline = await client.send(server.url)
        assert not timeline.reused

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with RawServer(script, tls=context) as server:
        side.run(scenario)


def counting(resumed: list[bool]):
    """Answers one request on each connection, and notes whether its handshake was short."""

    def script(peer):
        if peer.request() is not None:
            resumed.append(peer.sock.session_reused)
            peer.send(reply(b"ok", b"connection: close"))

    return script


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_on_the_next_connection(side, authority, ca_file, version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = version
    authority.issue_cert("127.0.0.1").configure_cert(context)
    resumed: list[bool] = []

    async def scenario():
        client = side.client(ca_file=ca_file)
        for _ in range(3):
            assert await client.fetch(server.url) == b"ok"

    with RawServer(counting(resumed), tls=context) as server:
        side.run(scenario)

    assert resumed == [False, True, True]


def test_a_session_is_not_shared_with_another_trust(side, authority, ca_file, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    other = tmp_path / "other.pem"
    authority.cert_pem.write_to_path(other)
    resumed: list[bool] = []

    async def scenario():
        for file in (ca_file, str(other)):
            await side.client(ca_file=file).fetch(server.url)

    with RawServer(counting(resumed), tls=context) as server:
        side.run(scenario)

    assert resumed == [False, False]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_client_shows_its_certificate(side, authority, ca_file, tmp_path, is_known):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    own = (authority if is_known else trustme.CA()).issue_cert("client.example")
    path = tmp_path / "client.pem"
    own.private_key_and_cert_chain_pem.write_to_path(path)

    async def scenario():
        client = side.client(ca_file=ca_file, client_cert=Identity(str(path)))
        if is_known:
            assert await client.fetch(server.url) == b"ok"
            return
        with pytest.raises(ExchangeError):
            await client.fetch(server.url)

    with RawServer(forever(reply()), tls=context) as server:
        side.run(scenario)
