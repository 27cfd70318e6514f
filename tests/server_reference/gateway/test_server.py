"""How the HTTP server beneath is set up, and what happens when it fails."""

from __future__ import annotations

import signal
import socket

import pytest

from server_reference.__main__ import main
from server_reference.gateway import server as module
from server_reference.gateway.config import ServerConfig


@pytest.fixture
def failing_hypercorn(monkeypatch):
    """A hypercorn that takes no call and fails when its listening socket does."""

    async def serve(app, config, *, shutdown_trigger):
        raise OSError("too many open files")

    monkeypatch.setattr(module, "serve", serve)


@pytest.fixture
def signals():
    """Whatever the command does with signals is undone."""
    before = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}
    yield
    for which, action in before.items():
        signal.signal(which, action)


@pytest.mark.usefixtures("failing_hypercorn", "signals")
def test_an_http_side_that_ends_by_itself_ends_the_command_with_a_sentence(capsys, caplog):
    status = main(["serve", "--port", "0", "--num-blocks", "64"])

    (sentence,) = capsys.readouterr().err.splitlines()
    assert status == 1
    assert sentence.startswith("smartclient-server: the server ended by itself: too many open")
    assert "the server ended" in caplog.text


def test_connections_are_kept_for_75_seconds_and_any_number_of_requests():
    """Load balancers keep theirs for 60 s, and so never meet one that was closed here."""
    config = module._http(0)

    assert config.keep_alive_timeout == 75
    assert config.keep_alive_max_requests >= 10**9


def test_a_token_does_not_wait_for_the_one_before_it():
    with (
        module._listen(ServerConfig.of("tiny", {"port": 0})) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
