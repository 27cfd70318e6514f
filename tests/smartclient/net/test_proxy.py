"""A proxy as a value."""

from __future__ import annotations

import copy
import traceback

import msgspec
import pytest

from smartclient._call import Headers
from smartclient.net.proxy import Login, Proxy, proxy_of
from smartclient.net.secret import SecretBytes

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("http://a.example", "http://a.example:80", id="usual-port"),
        pytest.param("HTTPS://A.Example/", "https://a.example:443", id="any-case"),
        pytest.param("http://[::1]:3128", "http://[::1]:3128", id="ipv6"),
        pytest.param(" socks5://a.example ", "socks5://a.example:1080", id="socks"),
        pytest.param("socks5h://a.example:9", "socks5h://a.example:9", id="socks-names"),
    ],
)
def test_a_url_is_read(url, shown):
    assert str(proxy_of(url)) == shown


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        pytest.param("http://me:p%40%3A%2fw@a", b"me", b"p@:/w", id="percent-encoded"),
        pytest.param("http://me:p@w@a", b"me", b"p@w", id="an-at-sign-as-it-is"),
        pytest.param("http://me:a+b@a", b"me", b"a+b", id="a-plus-is-a-plus"),
        pytest.param("socks5://m%C3%A9@a", "mé".encode(), b"", id="no-password"),
    ],
)
def test_user_and_password_are_decoded(url, user, password):
    assert proxy_of(url).login == Login(user, password)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        pytest.param(
            f"ftp://me:{SECRET}@a", "must begin with http://, .*, not with ftp:", id="ftp"
        ),
        pytest.param(f"me:{SECRET}@a:1", "must begin with http://", id="no-scheme"),
        pytest.param(f"http://me:{SECRET}\r\n@a:1", "has a line break", id="line-break"),
        pytest.param(f"{SECRET}:1", "must begin with http://", id="host-only"),
        pytest.param(f"http://me:{SECRET}@", "names no host", id="no-host"),
        pytest.param(f"http://me:{SECRET}@a:0", "names no host or port", id="port-0"),
        pytest.param(f"http://me:{SECRET}@a:x", "cannot be read", id="port-no-number"),
        pytest.param(f"http://me:{SECRET}@a:70000", "cannot be read", id="port-too-large"),
        pytest.param(f"http://me:{SECRET}@[::1", "cannot be read", id="bracket"),
        pytest.param(f"http://me:a/{SECRET}@a", "cannot be read", id="slash-in-password"),
        pytest.param(f"http://a/?{SECRET}", "must end after host and port", id="query"),
        pytest.param(f"http://m%3Ae:{SECRET}@a", "has a colon", id="colon-in-user"),
        pytest.param(f"socks5://me:{SECRET * 50}@a", "255 bytes each", id="long-for-socks"),
        pytest.param(f"http://me:{SECRET}@bücher", "outside ASCII", id="no-ascii"),
    ],
)
def test_what_is_no_proxy_is_an_error_that_does_not_show_it(url, problem):
    error = proxy_of(url, "HTTPS_PROXY")

    with pytest.raises(ValueError, match=problem):
        raise error
    assert "HTTPS_PROXY" in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))
    assert (error.__cause__, error.__context__) == (None, None)


def test_an_http_proxy_is_told_the_login_before_other_fields():
    proxy = Proxy(
        scheme="http", host="a", port=1, login=Login(b"me", b"pw"), fields=Headers({"x-a": "b"})
    )

    assert list(proxy.told()) == [("proxy-authorization", "Basic bWU6cHc="), ("x-a", "b")]


def test_a_field_of_ones_own_comes_before_the_login():
    fields = Headers({"Proxy-Authorization": "Bearer x"})

    proxy = Proxy(scheme="http", host="a", port=1, login=Login(b"me", b"pw"), fields=fields)

    assert (proxy.told(), proxy.has_login) == (fields, True)


def test_nothing_shows_the_secrets():
    proxy = msgspec.structs.replace(
        proxy_of(f"http://me:{SECRET}@a.example:1"), fields=Headers({"x-key": SECRET})
    )

    shown = f"{proxy} {proxy!r} {proxy.login!r} {proxy.__rich_repr__()} {[proxy]}"
    shown += f"{proxy.login.__rich_repr__()} {SecretBytes(SECRET.encode())!r}"

    assert SECRET not in shown
    assert "http://a.example:1" in shown


def test_proxies_with_other_logins_are_other_keys():
    one, same, other = (proxy_of(f"http://me:{pw}@a") for pw in ("a", "a", "b"))

    assert (one == same, hash(one) == hash(same), one == other) == (True, True, False)
    assert copy.copy(one) == one
