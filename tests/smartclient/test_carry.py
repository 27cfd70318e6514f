"""What our connections take over from a family's transport."""

from __future__ import annotations

import socket
import ssl

import httpx
import httpx2
import pytest

from smartclient._call import Origin
from smartclient._carry import carried, given_names
from smartclient._settings import Settings

ORIGINS = [Origin("http", "a.example", 80), Origin("https", "a.example", 443)]
LOGIN = "http://me:p%40ss@p.example:3128"


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def family(request):
    return request.param


@pytest.fixture(params=["HTTPTransport", "AsyncHTTPTransport"], ids=["blocking", "async"])
def usual(request, family):
    return getattr(family, request.param)


def options_of(family, usual, present=None, **settings):
    """What is carried from a transport, or from the one that these `settings` make."""
    present = present or usual()
    return carried(family, family.Client(), present, usual, Settings(**settings))


def proxies_of(options) -> list[str]:
    return [str(options.proxies.to(origin)) for origin in ORIGINS]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("http://p.example", "http://p.example:80", id="usual-port"),
        pytest.param(LOGIN, "http://p.example:3128", id="login"),
        pytest.param("https://[::1]:8443", "https://[::1]:8443", id="ipv6-over-tls"),
    ],
)
def test_a_proxy_is_taken_over(family, usual, url, shown):
    options = options_of(family, usual, usual(proxy=url))

    assert proxies_of(options) == [shown] * 2


def test_its_login_and_header_fields_come_along(family, usual):
    proxy = family.Proxy(LOGIN, headers={"X-Site": "north"})

    told = options_of(family, usual, usual(proxy=proxy)).proxies.http.told()

    assert (told.get("proxy-authorization"), told.get("x-site")) == ("Basic bWU6cEBzcw==", "north")


def test_a_field_that_cannot_be_sent_leaves_the_transport_below(family, usual):
    proxy = family.Proxy(LOGIN, headers={"X-Site": "a\r\nx-more: b"})

    assert options_of(family, usual, usual(proxy=proxy)) is None


def test_a_proxys_own_certificates_are_asked_about_it_alone(family, usual):
    context, other = ssl.create_default_context(), ssl.create_default_context()
    proxy = family.Proxy("https://p.example", ssl_context=context)

    options = options_of(family, usual, usual(proxy=proxy, verify=other))

    assert (options.proxy_context, options.ssl_context) == (context, other)


def test_an_https_proxy_is_judged_by_the_usual_list(family, usual):
    """As the family does, whatever it trusts at the origin."""
    origins = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    options = options_of(family, usual, usual(proxy="https://p.example", verify=origins))

    assert options.proxy_context is not origins
    assert options.proxy_context.verify_mode is ssl.CERT_REQUIRED


def test_the_socket_and_its_address_are_taken_over(family, usual):
    sent = (socket.SOL_SOCKET, socket.SO_SNDBUF, 9_000)

    near = options_of(family, usual, usual(uds="/tmp/s"))
    far = options_of(family, usual, usual(local_address="127.0.0.1", socket_options=[sent]))

    assert near.uds == "/tmp/s"
    assert (far.local_address, far.socket_options) == ("127.0.0.1", (sent,))


def test_the_environment_is_not_read_again(family, usual, monkeypatch):
    present = usual()
    monkeypatch.setenv("ALL_PROXY", LOGIN)

    assert proxies_of(options_of(family, usual, present)) == ["None"] * 2


@pytest.mark.parametrize(
    "settings",
    [
        {"proxy": "http://mine.example"},
        {"local_address": "127.0.0.2"},
        {"socket_options": ((socket.SOL_SOCKET, socket.SO_SNDBUF, 9_000),)},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_setting_comes_first(family, usual, settings):
    buffer = (socket.SOL_SOCKET, socket.SO_RCVBUF, 1_000)
    present = usual(local_address="127.0.0.1", socket_options=[buffer])

    options = options_of(family, usual, present, **settings)

    expected = "http://mine.example:80" if "proxy" in settings else "None"
    assert proxies_of(options) == [expected] * 2
    assert options.local_address == settings.get("local_address", "127.0.0.1")
    assert options.socket_options == settings.get("socket_options", (buffer,))


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"proxy": LOGIN}, {"uds": "/tmp/s"}),
        ({"uds": "/tmp/s"}, {"proxy": LOGIN}),
        ({"uds": "/tmp/s"}, {"local_address": "127.0.0.1"}),
    ],
    ids=["uds-for-a-proxy", "proxy-for-uds", "address-for-uds"],
)
def test_what_excludes_what_the_client_has_is_refused(family, usual, given, settings):
    with pytest.raises(ValueError, match="uds"):
        options_of(family, usual, usual(**given), **settings)


def test_settings_about_connections_are_known_by_name():
    assert given_names(Settings(proxy=LOGIN), {"keepalive": 60.0}) == ["keepalive", "proxy"]
    assert given_names(Settings(max_age=7, max_requests=1), {}) == ["max_age", "max_requests"]
    assert given_names(Settings(max_retries=7), {"max_retries": 7}) == []


@pytest.mark.parametrize(
    ("given", "setting", "version"),
    [
        pytest.param({}, "auto", "1.1", id="the-familys-usual"),
        pytest.param({"http2": True}, "auto", "auto", id="offered-by-the-family"),
        pytest.param({"http1": False, "http2": True}, "auto", "2", id="insisted-on-by-the-family"),
        pytest.param({"http2": True}, "1.1", "1.1", id="ours-wins"),
        pytest.param({}, "2", "2", id="ours-insists"),
    ],
)
def test_http_version_is_the_familys_unless_a_setting_insists(
    family, usual, given, setting, version
):
    options = options_of(family, usual, usual(**given), http_version=setting)

    assert options.http_version == version
