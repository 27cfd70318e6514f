"""How our httpx clients reach a server: TLS, HTTP/2, proxies, sockets, trio, cancellation."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trio
import trustme

import server_reference
from server_reference.scripted import Answer, rule
from server_reference.scripted.ops import Body, End, Head

from .http_sides import HTTP_SIDES, every_side
from .proxies import HttpProxy
from .raw_server import RawServer, forever, reply
from .test_ways_out import UnixServer

ASKED = {"model": "m", "max_tokens": 9, "messages": [], "stream": True}
OK = [Head(200), Body(b"ok"), End()]
ASYNC = [one for one in HTTP_SIDES if one.values[0].is_async]
async_sides = pytest.mark.parametrize("http", ASYNC)


async def asked_under_trio(http, url, **options):
    async with http.make(**options) as client:
        return await client.get(url)


@pytest.fixture
def secure():
    with server_reference.scripted(rule(OK), tls=True) as running:
        yield running


@every_side
def test_a_certificate_of_nobody_known_is_refused(http, secure):
    async def scenario(client):
        with pytest.raises(http.family.ConnectError, match=r"certificate of .* is not accepted"):
            await client.request("GET", secure.base_url)

    http.run(scenario)


@every_side
@pytest.mark.parametrize(
    ("version", "sync", "async_"),
    [
        pytest.param("auto", "HTTP/1.1", "HTTP/2", id="auto"),
        pytest.param("1.1", "HTTP/1.1", "HTTP/1.1", id="1.1"),
        pytest.param("2", "HTTP/2", "HTTP/2", id="2"),
    ],
)
def test_the_authority_and_the_protocol_are_those_of_the_settings(
    http, secure, version, sync, async_
):
    async def scenario(client):
        response = await client.request("GET", secure.base_url)
        assert response.content == b"ok"
        assert response.http_version == (async_ if http.is_async else sync)

    http.run(scenario, ca_file=secure.ca_file, http_version=version)


@every_side
@pytest.mark.parametrize("extensions", [None, {"sni_hostname": "a.test"}], ids=["ours", "theirs"])
def test_the_clients_certificate_is_shown_whoever_carries_it(http, tmp_path, extensions):
    async def scenario(client):
        response = await client.request("GET", server.url, extensions=extensions)
        assert response.content == b"ok"

    authority, names = trustme.CA(), ("127.0.0.1", "a.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = authority.issue_cert("client.test").private_key_and_cert_chain_pem
    own.write_to_path(tmp_path / "own.pem")
    with RawServer(forever(lambda _: reply()), tls=context) as server:
        files = {"ca_file": tmp_path / "ca.pem", "client_cert": tmp_path / "own.pem"}
        http.run(scenario, **{name: str(file) for name, file in files.items()})


@every_side
def test_http2_without_tls_is_spoken_by_prior_knowledge(http):
    async def scenario(client):
        response = await client.request("GET", server.base_url)
        assert response.http_version == "HTTP/2"

    with server_reference.scripted(rule(OK)) as server:
        http.run(scenario, http_version="2")


@every_side
def test_a_proxy_of_the_settings_is_on_the_way(http):
    async def scenario(client):
        assert (await client.request("GET", server.url)).content == b"ok"

    with RawServer(forever(lambda _: reply())) as server, HttpProxy("me:word") as proxy:
        http.run(scenario, proxy=proxy.address.replace("//", "//me:word@"))
        assert proxy.asked == [f"GET {server.url}"]


@every_side
@pytest.mark.parametrize("trust_env", [True, False])
def test_the_environment_is_read_if_it_may_be(http, monkeypatch, trust_env):
    async def scenario(client):
        assert (await client.request("GET", server.url)).content == b"ok"
        assert client.client.trust_env is trust_env

    with RawServer(forever(lambda _: reply())) as server, HttpProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        http.run(scenario, trust_env=trust_env)
        assert len(proxy.asked) == trust_env


@every_side
@pytest.mark.parametrize("extensions", [None, {"sni_hostname": "a.test"}], ids=["ours", "theirs"])
def test_a_unix_socket_is_reached_whoever_carries_it(http, tmp_path, extensions):
    async def scenario(client):
        response = await client.request("GET", "http://model.test/", extensions=extensions)
        assert b"host: model.test\r\n" in response.content.lower()

    path = tmp_path / "socket"
    echo = forever(lambda request: reply(request))
    with UnixServer(echo, path) as _:
        http.run(scenario, uds=str(path))


@every_side
@pytest.mark.parametrize("version", ["auto", "2"])
def test_what_the_familys_transport_carries_does_not_change_what_ours_offers(http, version):
    """It sets its own protocols in the context that it is given."""

    async def scenario(client):
        first = await client.request("GET", f"{server.base_url}/a")
        other = await client.request(
            "GET", f"{server.base_url}/b", extensions={"sni_hostname": "localhost"}
        )
        again = await client.request("GET", f"{server.base_url}/c")
        assert (other.status_code, again.http_version) == (200, first.http_version)

    with server_reference.scripted(rule(OK), tls=True) as server:
        http.run(scenario, ca_file=server.ca_file, http_version=version, max_requests=1)


@async_sides
def test_a_cancelled_stream_is_cut(http):
    async def scenario(client):
        async def read():
            response = await client.opened("POST", f"{server.base_url}/v1/messages", json=ASKED)
            started.set()
            await client.read(response)

        started = asyncio.Event()
        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(server.assert_no_leaks, idle=0)

    reports = []
    with server_reference.scripted(Answer(text="a b", itl=60.0)) as server:
        http.run(scenario, on_report=reports.append)
    assert [one.error for one in reports] == ["cut"]


@async_sides
def test_under_trio_the_familys_transport_carries_it_with_our_retries(http):
    """And with the settings: its own authority, its own proxy."""
    busy = reply(b"{}", b"retry-after-ms: 1", status=b"503 Busy")
    answers = [busy, reply()]
    with RawServer(forever(lambda request: answers.pop(0))) as server, HttpProxy() as proxy:
        response = trio.run(lambda: asked_under_trio(http, server.url, proxy=proxy.address))

    assert (response.content, len(proxy.asked)) == (b"ok", 2)


@async_sides
def test_under_trio_certificates_are_judged_by_the_settings(http, secure):
    with pytest.raises(http.family.ConnectError):
        trio.run(lambda: asked_under_trio(http, secure.base_url, max_retries=0))
    response = trio.run(lambda: asked_under_trio(http, secure.base_url, ca_file=secure.ca_file))

    assert response.content == b"ok"


@async_sides
def test_under_trio_a_way_that_it_would_not_take_is_an_error(http):
    way = {"proxy": "http://127.0.0.1:1", "local_address": "127.0.0.1"}
    with pytest.raises(RuntimeError, match="local_address and socket_options would have no"):
        trio.run(lambda: asked_under_trio(http, "http://127.0.0.1:1/", **way))
