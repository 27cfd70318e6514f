from __future__ import annotations

import socket

import pytest

from smartclient.net.tcp import (
    Readiness,
    check_unix_path,
    numeric_addresses,
    socket_options_of,
    start_connecting,
    unix_address,
    wait_for,
)


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


def test_options_come_after_our_own():
    off = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        start_connecting(
            (socket.AF_INET, server.getsockname()), local_address="127.0.0.2", options=[off]
        ) as sock,
    ):
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
        assert sock.getsockname()[0] == "127.0.0.2"


def test_a_unix_socket_that_would_have_to_wait_is_no_connection(tmp_path):
    """It never connects later, as TCP does."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        server.bind(path)
        server.listen(0)
        first.connect(path)
        with pytest.raises(BlockingIOError):
            start_connecting(unix_address(path)).close()


def test_an_option_of_ipv6_is_an_option():
    option = (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)

    assert socket_options_of([option]) == (option,)


def test_a_system_without_unix_sockets_says_so(monkeypatch):
    monkeypatch.delattr(socket, "AF_UNIX")

    with pytest.raises(ValueError, match="does not have"):
        check_unix_path("/tmp/s")
