"""What can be asked of the connection of a reply."""

from __future__ import annotations

import socket

import pytest

from smartclient.transports.network_stream import NetworkStream


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    yield one, other
    one.close()
    other.close()


def test_it_names_the_socket_and_the_tls_on_it(pair):
    stream = NetworkStream((pair[0], "tls"))

    assert stream.get_extra_info("socket") is pair[0]
    assert stream.get_extra_info("ssl_object") == "tls"


@pytest.mark.parametrize("name", ["client_addr", "server_addr", "is_readable"])
def test_what_is_not_known_any_more_is_nothing(pair, name):
    pair[0].close()

    assert NetworkStream((pair[0], None)).get_extra_info(name) is None


def test_it_cannot_be_read_or_written():
    assert not {"read", "write", "close", "start_tls"} & set(dir(NetworkStream))
