"""The handshakes with proxies, played without I/O, their answers cut in every way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient import ExchangeError
from smartclient._call import Headers, Origin
from smartclient.net.http1 import HEAD_LIMIT
from smartclient.net.proxy import Login, Proxy, proxy_of
from smartclient.net.refusals import refused_by_socks
from smartclient.net.tunnel import Receive, Send, connect, socks

ORIGIN = Origin("https", "a.example", 443)
OPEN = proxy_of("http://p.example:3128")
SOCKS = proxy_of("socks5h://p.example")
WITH_LOGIN = Proxy(scheme="socks5h", host="p.example", port=1080, login=Login(b"me", b"pw"))
BOUND = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x10\x00"


def played(steps, *answers: bytes) -> list[bytes]:
    """What is sent when the proxy says `answers`, one for each time it is listened to."""
    waiting = list(answers)
    sent = said_to(steps, iter(lambda: waiting.pop(0), None))
    assert waiting == []
    return sent


def said_to(steps, answers: Iterator[bytes]) -> list[bytes]:
    sent, step = [], next(steps)
    while True:
        answer = None
        match step:
            case Send(data):
                sent.append(bytes(data))
            case Receive():
                answer = next(answers)
        try:
            step = steps.send(answer)
        except StopIteration:
            return sent


def refusal(steps, *answers: bytes) -> ExchangeError:
    with pytest.raises(ExchangeError) as caught:
        played(steps, *answers)
    return caught.value


# CONNECT.


@pytest.mark.parametrize(
    ("origin", "authority"),
    [
        pytest.param(ORIGIN, b"a.example:443", id="name"),
        pytest.param(Origin("https", "::1", 8443), b"[::1]:8443", id="ipv6"),
        pytest.param(
            Origin("https", "bücher.example", 443), b"xn--bcher-kva.example:443", id="idn"
        ),
    ],
)
def test_a_tunnel_is_asked_for_with_host_and_port(origin, authority):
    sent = played(connect(origin, OPEN), b"HTTP/1.1 200 OK\r\n\r\n")

    assert sent == [b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n\r\n" % (authority, authority)]


def test_login_and_further_fields_are_sent_and_not_shown():
    proxy = Proxy(
        scheme="http", host="p", port=1, login=Login(b"me", b"pw"), fields=Headers({"x-a": "b"})
    )
    step = next(connect(ORIGIN, proxy))

    assert step.data.endswith(b"\r\nproxy-authorization: Basic bWU6cHc=\r\nx-a: b\r\n\r\n")
    assert "bWU6cHc" not in repr(step)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.0 200 Connection established\r\n\r\n", id="old"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n", id="with-a-length"),
        pytest.param(b"HTTP/1.1 204 No\r\ntransfer-encoding: chunked\r\n\r\n", id="chunked"),
        pytest.param(b"HTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", id="after-an-interim"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_any_success_opens_it_in_whatever_pieces_it_comes(answer, size):
    pieces = [answer[start : start + size] for start in range(0, len(answer), size)]

    assert len(played(connect(ORIGIN, OPEN), *pieces)) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        pytest.param(
            b"HTTP/1.1 407 p4ss\r\ncontent-length: 4\r\n\r\nno!!",
            "proxy",
            r"p.example:3128 asks for a user and password \(407\); put user and password",
            id="login",
        ),
        pytest.param(b"HTTP/1.1 403 p4ss\r\n\r\n", "proxy", "does not allow this host", id="403"),
        pytest.param(b"HTTP/1.1 302 Go\r\n\r\n", "proxy", r"opens no tunnel \(302\)", id="odd"),
        pytest.param(
            b"HTTP/1.1 502 Bad\r\n\r\n", "connect", "could not reach the origin", id="502"
        ),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "proxy", "bytes that are not HTTP/1.1", id="garbage"),
        pytest.param(b"", "connect", "closed the connection before any reply; try", id="closed"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n" + b"x" * HEAD_LIMIT, "proxy", "more than 64 KiB", id="endless"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1", "proxy", "sent bytes before anything", id="early"
        ),
    ],
)
def test_a_refusal_says_who_refused_and_what_to_do(answer, kind, message):
    error = refusal(connect(ORIGIN, OPEN), answer)

    assert (error.kind, error.sent, error.origin) == (kind, "nothing", "https://a.example:443")
    assert "no connection to https://a.example:443: the proxy http://p.example:3128" in str(error)
    assert "p4ss" not in str(error)
    with pytest.raises(ExchangeError, match=message):
        raise error


def test_a_login_that_was_given_is_not_asked_for():
    proxy = proxy_of("http://me:s3cret@p.example")

    error = refusal(connect(ORIGIN, proxy), b"HTTP/1.1 407 No\r\n\r\n")

    assert "does not accept the user and password that it was given (407)" in str(error)
    assert "s3cret" not in str(error)


def test_an_interim_reply_without_end_is_bounded():
    interim = b"HTTP/1.1 102 Wait\r\nx: " + b"y" * 1000 + b"\r\n\r\n"

    error = refusal(connect(ORIGIN, OPEN), *[interim] * 100)

    assert "more than 64 KiB" in str(error)


# SOCKS5.


def test_socks_is_given_the_name_or_the_address():
    four, six = (socket.AF_INET, ("192.0.2.1", 443)), (socket.AF_INET6, ("2001:db8::1", 443, 0, 0))

    asked = [played(socks(ORIGIN, SOCKS, to), b"\x05\x00", BOUND)[1] for to in (None, four, six)]

    assert asked == [
        b"\x05\x01\x00\x03\x09a.example\x01\xbb",
        b"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb",
        b"\x05\x01\x00\x04" + socket.inet_pton(socket.AF_INET6, "2001:db8::1") + b"\x01\xbb",
    ]


def test_socks_logs_in_where_the_proxy_wants_it():
    sent = played(socks(ORIGIN, WITH_LOGIN, None), b"\x05\x02", b"\x01\x00", BOUND)

    assert sent[:2] == [b"\x05\x02\x00\x02", b"\x01\x02me\x02pw"]


def test_socks_keeps_the_login_to_itself_where_nobody_wants_it():
    sent = played(socks(ORIGIN, WITH_LOGIN, None), b"\x05\x00", BOUND)

    assert not any(b"pw" in piece for piece in sent)


@pytest.mark.parametrize(
    "bound",
    [
        pytest.param(BOUND, id="ipv4"),
        pytest.param(b"\x05\x00\x00\x04" + bytes(18), id="ipv6"),
        pytest.param(b"\x05\x00\x00\x03\x04here\x00\x00", id="name"),
    ],
)
def test_what_socks_is_bound_to_is_read_to_its_end(bound):
    pieces = [bound[at : at + 1] for at in range(len(bound))]

    assert len(played(socks(ORIGIN, SOCKS, None), b"\x05\x00", *pieces)) == 2


@pytest.mark.parametrize(
    ("answers", "kind", "message"),
    [
        ([b"\x05\xff"], "proxy", r"asks for a user and password \(SOCKS method 255\)"),
        ([b"\x05\x02"], "proxy", r"asks for a user and password \(SOCKS method 2\)"),
        ([b"\x04\x00"], "proxy", "version 4 where 5 was due"),
        ([b"HTTP/1.1 400"], "proxy", "version 72 where 5 was due; check that it is a proxy"),
        ([b""], "connect", "closed the connection in the middle of its handshake"),
        ([b"\x05\x00", BOUND + b"hello"], "proxy", "sent bytes before anything was asked"),
        ([b"\x05\x00", b"\x05\x00\x00\x07"], "proxy", "an address of the unknown kind 7"),
    ],
)
def test_socks_that_answers_otherwise_is_refused(answers, kind, message):
    with pytest.raises(ExchangeError, match=message) as caught:
        played(socks(ORIGIN, SOCKS, None), *answers)

    assert caught.value.kind == kind


def test_socks_refuses_a_wrong_login():
    error = refusal(socks(ORIGIN, WITH_LOGIN, None), b"\x05\x02", b"\x01\x01")

    assert "does not accept the user and password that it was given" in str(error)


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (1, "connect", "failed"),
        (2, "proxy", "does not allow this host and port"),
        (3, "connect", "no route to the origin's network"),
        (4, "connect", "cannot reach the origin's host"),
        (5, "connect", "was refused a connection by the origin"),
        (6, "connect", "TTL expired"),
        (7, "proxy", "makes no TCP connections"),
        (8, "proxy", "write socks5h:// in place of socks5://"),
        (99, "proxy", "leads nowhere"),
    ],
)
def test_every_reply_of_socks_is_worded(reply, kind, message):
    error = refused_by_socks(ORIGIN, SOCKS, reply)

    assert error.kind == kind
    assert message in str(error)
    assert f"(SOCKS reply {reply})" in str(error)


@pytest.mark.parametrize("reply", [1, 5, 99])
def test_a_reply_of_socks_is_told_without_reading_on(reply):
    steps = socks(ORIGIN, SOCKS, None)
    next(steps), steps.send(None), steps.send(b"\x05\x00"), steps.send(None)

    with pytest.raises(StopIteration) as told:
        steps.send(b"\x05%c\x00\x01" % reply)

    assert told.value.value == reply


def test_a_name_that_is_too_long_is_none():
    with pytest.raises(UnicodeError, match="254 characters"):
        played(socks(Origin("https", "a" * 254, 443), SOCKS, None), b"\x05\x00")


@given(st.binary(max_size=80), st.integers(1, 9))
def test_whatever_a_proxy_says_ends_in_success_or_in_one_error(data, size):
    pieces = [data[start : start + size] for start in range(0, len(data), size)]

    for steps in (connect(ORIGIN, OPEN), socks(ORIGIN, WITH_LOGIN, None)):
        kind = "none"
        try:
            said_to(steps, chain(pieces, repeat(b"")))
        except ExchangeError as error:
            kind = error.kind
        assert kind in ("none", "proxy", "connect")
