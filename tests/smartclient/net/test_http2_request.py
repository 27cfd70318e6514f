"""Calls as header fields."""

from __future__ import annotations

import pytest
from hpack import Encoder, NeverIndexedHeaderTuple

from smartclient._call import Headers
from smartclient.net.http2_request import fields_of

from .h2_server import Ends, a_call


def test_pseudo_header_fields_come_first_and_the_length_last():
    assert fields_of(a_call()) == [
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", b"a.example"),
        (b":path", b"/v1/messages?beta=true"),
        (b"x-api-key", b"a-key"),
        (b"content-length", b"2"),
    ]


def test_host_of_the_caller_is_the_authority():
    fields = fields_of(a_call(headers=Headers({"Host": "other.example"})))

    assert (b":authority", b"other.example") in fields
    assert b"host" not in dict(fields)


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [
        pytest.param("Connection", "keep-alive", None, id="connection"),
        pytest.param("Keep-Alive", "timeout=5", None, id="keep-alive"),
        pytest.param("Upgrade", "h2c", None, id="upgrade"),
        pytest.param("TE", "gzip", None, id="te"),
        pytest.param("TE", "trailers", b"trailers", id="te-trailers"),
        pytest.param("X-A", "caf\u00e9", b"caf\xe9", id="latin-1"),
        pytest.param("X-A", " a b\t", b"a b", id="blanks"),
        pytest.param("X-Api-Key", " a-key ", b"a-key", id="blanks-around-a-key"),
    ],
)
def test_fields_of_an_http1_connection_are_left_out(name, value, sent):
    fields = dict(fields_of(a_call(headers=Headers({name: value}))))

    assert fields.get(name.lower().encode()) == sent


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        pytest.param("GET", b"", None, id="none"),
        pytest.param("POST", b"", b"0", id="empty"),
        pytest.param("POST", [b"x"], None, id="iterable"),
    ],
)
def test_length_is_announced_where_it_is_known(method, body, length):
    assert dict(fields_of(a_call(method=method, body=body))).get(b"content-length") == length


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "api-key", "Cookie"])
def test_keys_are_never_indexed_nor_shown(name):
    fields = fields_of(a_call(headers=Headers({name: "s3cret"})))

    [secret] = [field for field in fields if field[1] == b"s3cret"]
    assert isinstance(secret, NeverIndexedHeaderTuple)
    assert "s3cret" not in repr(fields)
    encoder = Encoder()
    encoder.encode(fields)
    assert all(value != b"s3cret" for _, value in encoder.header_table.dynamic_entries)


def test_keys_are_in_no_log(caplog):
    caplog.set_level("DEBUG")

    Ends().ask()

    assert [record for record in caplog.records if record.name.startswith("hpack")] == []
