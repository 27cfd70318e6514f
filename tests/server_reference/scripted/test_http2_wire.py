"""One HTTP/2 connection without I/O, with h2's client at the other end."""

from __future__ import annotations

import pytest
from h2.connection import H2Connection
from h2.events import RemoteSettingsChanged, StreamReset

from server_reference.scripted.http2_wire import ProtocolError, RequestReceived, Wire

FIELDS = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]


def a_pair(**settings):
    """A wire and a client that have greeted each other."""
    wire, client = Wire(settings), H2Connection()
    client.initiate_connection()
    talk(wire, client)
    return wire, client


def talk(wire, client):
    """Carry everything to and fro once; what the client and the server have seen."""
    at_server = wire.receive(client.data_to_send())
    at_client = client.receive_data(wire.take())
    return at_client, at_server + wire.receive(client.data_to_send())


def test_settings_are_announced_at_the_start():
    _, client = a_pair(INITIAL_WINDOW_SIZE=7)

    assert client.remote_settings.max_concurrent_streams == 100
    assert client.remote_settings.initial_window_size == 7


def test_a_lower_number_of_streams_counts_once_acknowledged():
    wire, client = a_pair()
    wire.announce((("MAX_CONCURRENT_STREAMS", 2),))
    before = wire.max_streams

    at_client, _ = talk(wire, client)

    assert any(isinstance(event, RemoteSettingsChanged) for event in at_client)
    assert (before, wire.max_streams) == (100, 2)


def test_one_stream_too_many_leaves_the_connection_alone():
    wire, client = a_pair(MAX_CONCURRENT_STREAMS=1)
    client.remote_settings.acknowledge()
    client.remote_settings[3] = 10
    client.remote_settings.acknowledge()
    for number in (1, 3):
        client.send_headers(number, FIELDS, end_stream=True)

    _, at_server = talk(wire, client)
    wire.reset(3, 7)

    assert [e.stream_id for e in at_server if isinstance(e, RequestReceived)] == [1, 3]
    [refused] = [e for e in client.receive_data(wire.take()) if isinstance(e, StreamReset)]
    assert (refused.stream_id, refused.error_code) == (3, 7)


def test_a_goaway_leaves_open_streams_to_go_on():
    wire, client = a_pair()
    client.send_headers(1, FIELDS, end_stream=True)
    talk(wire, client)

    wire.go_away(None, 0)
    wire.send_head(1, [(b":status", b"200")], ends=True)

    assert wire.is_taken(1)
    assert not wire.is_taken(3)
    assert len(wire.take()) == 17 + 10


def test_resetting_what_is_gone_does_nothing():
    wire, client = a_pair()
    client.send_headers(1, FIELDS, end_stream=True)
    talk(wire, client)
    wire.send_head(1, [(b":status", b"200")], ends=True)
    wire.take()

    wire.reset(1, 8)

    assert wire.take() == b""


def test_every_byte_is_counted_once():
    wire = Wire({})

    sent = wire.take()

    assert (wire.mark(), wire.take()) == (len(sent), b"")


def test_what_is_no_http2_is_refused_with_a_goaway():
    wire, _ = a_pair()

    with pytest.raises(ProtocolError):
        wire.receive(b"\0\0\0\x09\0\0\0\0\1")

    assert wire.take()[3] == 7
