"""The steps to a connection."""

from __future__ import annotations

import socket
import ssl

import pytest

import smartclient
from smartclient._call import Origin
from smartclient.net.dial import Connect, Receive, Resolve, Secure, dial
from smartclient.net.options import NetOptions
from smartclient.net.proxies import Proxies
from smartclient.net.proxy import proxy_of
from smartclient.net.routes import Routes

PLAIN, SECURE = Origin("http", "a.example", 80), Origin("https", "a.example", 443)
ADDRESS = (socket.AF_INET, ("192.0.2.1", 443))


def steps_to(host: str, scheme: str = "https"):
    return dial(Routes(NetOptions()).to(Origin(scheme, host, 443)))


def test_a_name_is_looked_up_connected_to_and_secured():
    steps = steps_to("a.example")

    assert next(steps) == Resolve("a.example", 443)
    assert steps.send([ADDRESS]) == Connect([ADDRESS])
    secure = steps.send(None)
    assert isinstance(secure, Secure)
    assert secure.host == "a.example"
    with pytest.raises(StopIteration):
        steps.send(None)


def test_an_address_is_not_looked_up_and_a_plain_origin_not_secured():
    steps = steps_to("192.0.2.1", "http")

    assert next(steps) == Connect([ADDRESS])
    with pytest.raises(StopIteration):
        steps.send(None)


@pytest.mark.parametrize(
    ("num_done", "error", "kind"),
    [
        (0, socket.gaierror(-2, "Name or service not known"), "resolve"),
        (1, ConnectionRefusedError(111, "refused"), "connect"),
        (2, ssl.SSLError(1, "wrong version"), "tls"),
    ],
)
def test_a_step_that_fails_says_which(num_done, error, kind):
    steps = steps_to("a.example")
    next(steps)
    for answer in ([ADDRESS], None)[:num_done]:
        steps.send(answer)

    with pytest.raises(smartclient.ExchangeError) as caught:
        steps.throw(error)

    assert caught.value.kind == kind
    assert caught.value.__cause__ is error


def test_number_of_addresses_that_were_tried_is_said():
    steps = steps_to("a.example")
    next(steps)
    steps.send([ADDRESS] * 3)

    with pytest.raises(smartclient.ExchangeError, match="refused at any of its 3 addresses;"):
        steps.throw(ConnectionRefusedError(111, "x"))


PROXY = proxy_of("https://p.example:8443")
NEAR = (socket.AF_INET, ("192.0.2.9", 8443))


def through(proxy, origin=SECURE, **options):
    return dial(Routes(NetOptions(proxies=Proxies.all(proxy), **options)).to(origin))


def test_an_https_proxy_is_secured_before_it_is_asked_and_the_origin_after():
    steps = through(PROXY)

    assert next(steps) == Resolve("p.example", 8443)
    assert steps.send([NEAR]) == Connect([NEAR])
    assert steps.send(None).host == "p.example"
    assert steps.send("http/1.1").data.startswith(b"CONNECT a.example:443 ")
    assert steps.send(None) == Receive()
    assert steps.send(b"HTTP/1.1 200 OK\r\n\r\n").host == "a.example"


def test_a_plain_origin_is_the_http_proxys_to_reach():
    steps = through(proxy_of("http://192.0.2.9:8443"), PLAIN)

    assert next(steps) == Connect([NEAR])
    with pytest.raises(StopIteration):
        steps.send(None)


def test_socks5_looks_the_origin_up_before_it_connects_to_the_proxy():
    steps = through(proxy_of("socks5://192.0.2.9:8443"))

    assert next(steps) == Resolve("a.example", 443)
    assert steps.send([ADDRESS]) == Connect([NEAR])


SIX = (socket.AF_INET6, ("2001:db8::1", 443, 0, 0))


def refuse(steps, reply):
    """Play a proxy that is connected to, and refuses."""
    steps.send(None), steps.send(None), steps.send(b"\x05\x00"), steps.send(None)
    return steps.send(b"\x05%c\x00\x01" % reply)


def test_socks5_asks_for_every_address_over_a_connection_of_its_own():
    steps = through(proxy_of("socks5://192.0.2.9:8443"))
    next(steps), steps.send([SIX, ADDRESS])

    assert refuse(steps, 8) == Connect([NEAR])
    steps.send(None), steps.send(None)
    assert steps.send(b"\x05\x00").data.endswith(b"\x01\xc0\x00\x02\x01\x01\xbb")
    steps.send(None)
    assert isinstance(steps.send(b"\x05\x00\x00\x01" + bytes(6)), Secure)


@pytest.mark.parametrize(
    ("replies", "message"),
    [
        pytest.param([4, 5], r"refused .* \(SOCKS reply 5 to the last of 2 addresses\)", id="all"),
        pytest.param([7], r"\(SOCKS reply 7\)", id="which-has-nothing-to-do-with-the-address"),
    ],
)
def test_the_last_refusal_of_socks5_is_told(replies, message):
    steps = through(proxy_of("socks5://192.0.2.9:8443"))
    next(steps), steps.send([SIX, ADDRESS])

    with pytest.raises(smartclient.ExchangeError, match=message):
        [refuse(steps, reply) for reply in replies]


@pytest.mark.parametrize(("host", "kind"), [("a.example", b"\x03"), ("192.0.2.1", b"\x01")])
def test_socks5h_gives_the_name_and_an_address_as_it_is(host, kind):
    steps = through(proxy_of("socks5h://192.0.2.9:8443"), Origin("http", host, 80))
    next(steps), steps.send(None), steps.send(None)

    assert steps.send(b"\x05\x00").data[3:4] == kind


@pytest.mark.parametrize(
    ("num_done", "error", "kind", "message"),
    [
        (0, socket.gaierror(-2, "Name or service not known"), "resolve", "host name of the proxy"),
        (1, ConnectionRefusedError(111, "refused"), "connect", "check that the proxy runs"),
        (2, ssl.SSLError(1, "wrong version"), "tls", "no TLS with the proxy https://p.example"),
        (3, ConnectionResetError(104, "reset"), "connect", "broke the connection"),
    ],
)
def test_a_step_with_a_proxy_that_fails_names_it(num_done, error, kind, message):
    steps = through(PROXY)
    next(steps)
    for answer in ([NEAR], None, "http/1.1")[:num_done]:
        steps.send(answer)

    with pytest.raises(smartclient.ExchangeError, match=message) as caught:
        steps.throw(error)

    assert (caught.value.kind, caught.value.origin) == (kind, "https://a.example:443")


def test_a_proxy_that_chose_http2_is_not_asked():
    steps = through(PROXY)
    next(steps), steps.send([NEAR]), steps.send(None)

    with pytest.raises(smartclient.ExchangeError, match="wants to speak HTTP/2; give an ssl"):
        steps.send("h2")


def test_a_host_that_cannot_be_said_is_no_name():
    origin = Origin("https", "a" * 254 + ".example", 443)
    steps = through(proxy_of("socks5h://192.0.2.9:8443"), origin)
    next(steps), steps.send(None), steps.send(None)

    with pytest.raises(smartclient.ExchangeError, match="no name that a proxy can be told"):
        steps.send(b"\x05\x00")


def test_a_unix_socket_stands_for_every_host():
    steps = dial(Routes(NetOptions(uds="/tmp/s")).to(PLAIN))

    assert next(steps) == Connect([(socket.AF_UNIX, "/tmp/s")])


def test_a_local_address_leaves_the_addresses_of_its_kind():
    steps = dial(Routes(NetOptions(local_address="127.0.0.1")).to(PLAIN))
    next(steps)
    six = (socket.AF_INET6, ("2001:db8::1", 80, 0, 0))

    assert steps.send([six, ADDRESS]) == Connect([ADDRESS])


def test_a_local_address_without_an_address_of_its_kind_is_said():
    steps = dial(Routes(NetOptions(local_address="::1")).to(PLAIN))
    next(steps)

    with pytest.raises(smartclient.ExchangeError, match="has no IPv6 address, and local_address="):
        steps.send([ADDRESS])
