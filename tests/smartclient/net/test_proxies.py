"""Which calls take which proxy."""

from __future__ import annotations

import pytest

from smartclient._call import Origin
from smartclient.net.proxies import Proxies, find_proxies

PLAIN, SECURE = Origin("http", "a.example", 80), Origin("https", "a.example", 443)


def chosen(**environment: str) -> tuple[str, str]:
    """The proxies of a plain and of a secure origin."""
    found = find_proxies(environment)
    return str(found.to(PLAIN)), str(found.to(SECURE))


@pytest.mark.parametrize(
    ("environment", "plain", "secure"),
    [
        pytest.param({}, None, None, id="none"),
        pytest.param({"HTTPS_PROXY": "http://p:1"}, None, "http://p:1", id="https"),
        pytest.param({"HTTP_PROXY": "http://p:1"}, "http://p:1", None, id="http"),
        pytest.param({"http_proxy": "p:1"}, "http://p:1", None, id="lower-case-without-scheme"),
        pytest.param({"ALL_PROXY": "socks5h://p:1"}, *["socks5h://p:1"] * 2, id="all"),
        pytest.param(
            {"all_proxy": "http://all:1", "HTTPS_PROXY": "http://p:2"},
            "http://all:1",
            "http://p:2",
            id="all-for-the-rest",
        ),
        pytest.param(
            {"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:2"},
            None,
            "http://low:1",
            id="lower-case-first",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://up:2", "https_proxy": ""}, None, None, id="lower-case-empties"
        ),
        pytest.param({"HTTPS_PROXY": "  "}, None, None, id="blank"),
        pytest.param(
            {"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}, None, None, id="cgi"
        ),
        pytest.param(
            {"http_proxy": "http://p:1", "REQUEST_METHOD": "GET"},
            "http://p:1",
            None,
            id="cgi-lower-case",
        ),
        pytest.param({"FTP_PROXY": "ftp://p", "X_PROXY": "junk"}, None, None, id="others"),
    ],
)
def test_the_environment_names_the_proxy(environment, plain, secure):
    assert chosen(**environment) == (str(plain), str(secure))


def test_a_variable_that_names_no_proxy_is_named_without_its_value():
    found = find_proxies({"ALL_PROXY": "socks4://me:s3cret@p"})

    assert isinstance(found, ValueError)
    assert str(found).startswith("ALL_PROXY must begin with")
    assert "s3cret" not in str(found)


def goes_straight(none: str, host: str, port: int = 443, scheme: str = "https") -> bool:
    found = find_proxies({"ALL_PROXY": "http://p:1", "NO_PROXY": none})
    return found.to(Origin(scheme, host, port)) is None


STRAIGHT = [
    ("*", "any.example"),
    ("a.example", "a.example"),
    ("a.example", "A.Example"),
    ("A.EXAMPLE", "a.example"),
    ("a.example", "b.a.example"),
    ("a.example", "a.example."),
    ("a.example.", "a.example"),
    (".a.example", "b.a.example"),
    (".a.example", "a.example"),
    ("*.a.example", "c.b.a.example"),
    ("x, a.example ,y", "a.example"),
    ("x a.example", "a.example"),
    ("a.example:443", "a.example"),
    ("https://a.example", "a.example"),
    ("https://a.example/", "a.example"),
    ("localhost", "localhost"),
    ("127.0.0.1", "127.0.0.1"),
    ("127.0.0.1:443", "127.0.0.1"),
    ("10.0.0.0/8", "10.1.2.3"),
    ("10.1.2.3/8", "10.9.9.9"),
    ("10.0.0.0/8", "::ffff:10.1.2.3"),
    ("::1", "::1"),
    ("0:0:0:0:0:0:0:1", "::1"),
    ("[::1]", "::1"),
    ("[::1]:443", "::1"),
    ("fd00::/8", "fd12::3"),
    ("[fd00::]/8", "fd12::3"),
    ("0.0.0.0/0", "8.8.8.8"),
]

PROXIED = [
    ("", "a.example"),
    (",, ", "a.example"),
    ("a.example", "xa.example"),
    ("a.example", "a.example.org"),
    (".a.example", "xa.example"),
    ("*.a.example", "a.example"),
    ("example.*", "example.org"),
    ("a.example:80", "a.example"),
    ("http://a.example", "a.example"),
    ("127.0.0.1", "localhost"),
    ("a.example", "localhost"),
    ("0.0.1", "127.0.0.1"),
    ("10.0.0.0/8", "11.0.0.1"),
    ("10.0.0.0/99", "10.0.0.1"),
    ("10.0.0.0/8", "ten.example"),
    ("10.0.0.0/8", "host10"),
    ("fd00::/8", "fe00::1"),
    ("10.0.0.0/8", "fd00::1"),
    ("[::1]:80", "::1"),
    ("[", "a.example"),
    ("a.example:x", "b.example"),
]


@pytest.mark.parametrize(("none", "host"), STRAIGHT)
def test_no_proxy_lets_it_go_straight(none, host):
    assert goes_straight(none, host)


@pytest.mark.parametrize(("none", "host"), PROXIED)
def test_no_proxy_does_not_mean_it(none, host):
    assert not goes_straight(none, host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_this_machine_is_a_host_like_any_other(host):
    """As for curl and requests; Go and others leave it out."""
    assert not goes_straight("a.example", host)


def test_one_proxy_may_be_for_all():
    proxies = find_proxies({"ALL_PROXY": "http://p:1"})

    assert Proxies.all(proxies.http) == proxies
    assert Proxies().to(SECURE) is None
