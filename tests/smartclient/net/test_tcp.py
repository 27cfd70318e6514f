from __future__ import annotations

import socket

import pytest

from smartclient.net.tcp import Readiness, numeric_addresses, start_connecting, wait_for


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("127.0.0.1", [(socket.AF_INET, ("127.0.0.1", 80))], id="ipv4"),
        pytest.param("::1", [(socket.AF_INET6, ("::1", 80, 0, 0))], id="ipv6"),
        pytest.param("localhost", None, id="name"),
        pytest.param("127.1", None, id="short-form-is-looked-up"),
    ],
)
def test_number_needs_no_look_up(host, expected):
    assert numeric_addresses(host, 80) == expected


def test_socket_sends_at_once_and_probes_a_silent_peer():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        start_connecting((socket.AF_INET, server.getsockname())) as sock,
    ):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


@pytest.mark.parametrize("has_poll", [True, False])
def test_readiness_is_bytes_or_the_end(monkeypatch, has_poll):
    """Windows has no poll: `select` must say the same."""
    monkeypatch.setattr("smartclient.net.tcp._HAS_POLL", has_poll)
    ours, theirs = socket.socketpair()
    with ours:
        ready = Readiness(ours).within
        before = ready(0.0)
        theirs.close()

        assert (before, ready(0.0), wait_for(ours, write=True, timeout=0.0)) == (False, True, True)
