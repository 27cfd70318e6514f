"""Requests to bytes."""

from __future__ import annotations

import pytest

from smartclient._call import Call, Headers, Origin, Trace
from smartclient.net.http1_request import JOIN_LIMIT, chunk, head_of, joined
from smartclient.net.proxy import Proxy


def a_call(url: str = "http://api.example/v1/messages?beta=true", **changes) -> Call:
    origin, target = Origin.of(url)
    fields = {
        "method": "POST",
        "origin": origin,
        "target": target,
        "headers": Headers({"X-Api-Key": "a-key"}),
        "trace": Trace(0.0),
        "body": b"{}",
    }
    return Call(**(fields | changes))


def test_request_begins_with_its_host_and_ends_with_its_length():
    assert head_of(a_call()) == (
        b"POST /v1/messages?beta=true HTTP/1.1\r\n"
        b"host: api.example\r\n"
        b"X-Api-Key: a-key\r\n"
        b"content-length: 2\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [
        pytest.param("http://a.example:80/", b"a.example", id="default-port"),
        pytest.param("https://a.example/", b"a.example", id="default-tls-port"),
        pytest.param("https://a.example:80/", b"a.example:80", id="other-scheme's-port"),
        pytest.param("http://[::1]:8080/", b"[::1]:8080", id="ipv6"),
    ],
)
def test_host_names_the_port_only_when_it_must(url, host):
    assert b"\r\nhost: " + host + b"\r\n" in head_of(a_call(url))


def test_host_of_the_caller_takes_the_place_of_ours():
    head = head_of(a_call(headers=Headers({"Host": "other.example", "a": "b"})))

    assert head.startswith(b"POST /v1/messages?beta=true HTTP/1.1\r\nhost: other.example\r\na: b")
    assert head.lower().count(b"host:") == 1


class InTwoThreads(Headers):
    """What is kept in it is replaced at once by another thread, for its own call."""

    __slots__ = ("_kept",)

    @property
    def written(self):
        return self._kept

    @written.setter
    def written(self, kept):
        self._kept = kept and (("GET", "/other"), b"GET /other HTTP/1.1\r\n")


def test_fields_that_threads_share_go_where_each_of_them_sends_them():
    head = head_of(a_call(headers=InTwoThreads({"a": "b"})))

    assert head.startswith(b"POST /v1/messages?beta=true HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"method": "PUT"}, id="method"),
        pytest.param({"target": "/other"}, id="target"),
        pytest.param({"origin": Origin("http", "b.example", 80)}, id="origin"),
    ],
)
def test_fields_sent_before_go_elsewhere_with_another_beginning(changes):
    headers = Headers({"a": "b"})
    head_of(a_call(headers=headers))

    head = head_of(a_call(headers=headers, **changes))

    assert head == head_of(a_call(headers=Headers({"a": "b"}), **changes))


def test_fields_sent_before_are_given_to_a_proxy_in_its_form():
    headers = Headers({"a": "b"})
    head_of(a_call(headers=headers))

    head = head_of(a_call(headers=headers), Proxy(scheme="http", host="proxy.example", port=3128))

    assert head.startswith(b"POST http://api.example/v1/messages?beta=true HTTP/1.1\r\n")


def test_field_of_the_callers_own_comes_before_that_of_a_proxy():
    proxy = Proxy(scheme="http", host="p", port=1, fields=Headers({"x-team": "a", "x-b": "c"}))

    head = head_of(a_call(headers=Headers({"X-Team": "mine"})), proxy)

    assert head.count(b"x-b: c\r\n") == 1
    assert head.lower().count(b"x-team") == 1


@pytest.mark.parametrize(
    ("method", "body", "delimiter"),
    [
        pytest.param("GET", b"", b"", id="none"),
        pytest.param("POST", b"", b"content-length: 0\r\n", id="empty"),
        pytest.param("GET", b"x", b"content-length: 1\r\n", id="get-with-a-body"),
        pytest.param("POST", [b"x"], b"transfer-encoding: chunked\r\n", id="iterable"),
    ],
)
def test_body_is_announced(method, body, delimiter):
    head = head_of(a_call(method=method, body=body, headers=Headers()))

    assert head.partition(b"host: api.example\r\n")[2] == delimiter + b"\r\n"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("secret\n", id="newline-at-the-end"),
        pytest.param("secret\r\nx: y", id="another-header"),
        pytest.param("sec\x00ret", id="nul"),
        pytest.param("secret\u2019", id="typographic-quote"),
        pytest.param("secret\x7f", id="delete"),
    ],
)
def test_value_that_http_cannot_carry_is_refused_without_being_shown(value):
    with pytest.raises(ValueError, match="X-Api-Key") as error:
        head_of(a_call(headers=Headers({"X-Api-Key": value})))

    assert "sec" not in str(error.value)
    assert error.value.__context__ is None  # an encoding error would hold the whole head


@pytest.mark.parametrize("value", ["caf\u00e9", "a\tb", "", "\u00a0"])
def test_value_in_latin_1_is_sent_as_it_is(value):
    assert f"a: {value}\r\n".encode("latin-1") in head_of(a_call(headers=Headers({"a": value})))


@pytest.mark.parametrize("name", ["", "a b", "a:", "x-api-key: secret\r\ny", "\u00e9"])
def test_name_that_http_cannot_carry_is_refused_by_its_place(name):
    with pytest.raises(ValueError, match="header field 2") as error:
        head_of(a_call(headers=Headers([("a", "b"), (name, "c")])))

    assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_delimiters_are_the_connections_to_add(name):
    with pytest.raises(ValueError, match=f"leave out {name}"):
        head_of(a_call(headers=Headers({name: "7"})))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"method": "PO ST"}, id="method"),
        pytest.param({"target": "/a b"}, id="space"),
        pytest.param({"target": "/a\r\nx: y"}, id="line-break"),
        pytest.param({"target": "/\u00e9"}, id="not-ascii"),
        pytest.param({"target": ""}, id="empty"),
    ],
)
def test_request_line_that_would_be_another_is_refused(change):
    with pytest.raises(ValueError, match=r"token|quote them"):
        head_of(a_call(**change))


@pytest.mark.parametrize("body", ["text", 7, None, memoryview(b"x")])
def test_body_of_another_kind_is_refused(body):
    with pytest.raises(TypeError, match="bytes or an iterable of bytes"):
        head_of(a_call(body=body))


def test_small_body_is_written_with_its_head():
    assert joined(b"head", b"x" * JOIN_LIMIT) == (b"head" + b"x" * JOIN_LIMIT, None)


def test_rest_of_a_large_body_is_not_copied():
    body = b"x" * JOIN_LIMIT + b"rest"

    first, rest = joined(b"head", body)

    assert (len(first), rest.obj is body, bytes(rest)) == (4 + JOIN_LIMIT, True, b"rest")


def test_empty_piece_is_no_chunk_because_that_would_end_the_body():
    assert (chunk(b""), chunk(b"x" * 16)) == (b"", b"10\r\n" + b"x" * 16 + b"\r\n")


def test_head_kept_by_another_thread_meanwhile_is_not_sent():
    """Calls with the same fields share them, and so what was written of them last."""
    headers = Headers({"x-api-key": "a-key"})
    other = a_call("http://host/other", headers=headers)

    class Interrupted(str):
        def __eq__(self, text: object) -> bool:
            head_of(other)  # the other's turn, while ours is found to be the same
            return str(self) == text

        __hash__ = str.__hash__

    head_of(a_call("http://host/mine", headers=headers))
    head = head_of(a_call("http://host/mine", headers=headers, method=Interrupted("POST")))

    assert head.startswith(b"POST /mine ")
