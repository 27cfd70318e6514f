"""What the server's thread does when the HTTP server beneath it fails."""

from __future__ import annotations

import signal

import pytest

from server_reference.__main__ import main
from server_reference.gateway import server as module


@pytest.fixture(autouse=True)
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


@pytest.mark.usefixtures("signals")
def test_an_http_side_that_ends_by_itself_ends_the_command_with_a_sentence(capsys, caplog):
    status = main(["serve", "--port", "0", "--num-blocks", "64"])

    (sentence,) = capsys.readouterr().err.splitlines()
    assert status == 1
    assert sentence.startswith("smartclient-server: the server ended by itself: too many open")
    assert "the server ended" in caplog.text
