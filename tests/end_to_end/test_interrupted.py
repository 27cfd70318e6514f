"""Ctrl-C in the middle of a streamed read: it is heard at once, and the client can go on.

A real signal to a real process, because what a test raises by itself comes where the test
has put it; asyncio, the thread in the background and TLS each have their own way of waiting.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import server_reference
from server_reference.scripted import Answer, rule

from .interrupted import complaints

PROGRAM = str(Path(__file__).with_name("interrupted.py"))
RULES = [rule(Answer(text="one two", itl=60.0), model="slow"), rule("Hello there")]


@pytest.fixture(params=["1.1", "2", "1.1-tls", "2-tls"])
def spoken(request: pytest.FixtureRequest) -> Iterator[tuple[Any, list[str]]]:
    """A server whose stream stops in the middle, and what a program is told of it."""
    version, _, tls = request.param.partition("-")
    with server_reference.scripted(RULES, tls=bool(tls) or None) as server:
        trusted = [str(server.ca_file)] if tls else []
        yield server, [version, server.base_url, *trusted]


@contextmanager
def waiting(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program, once it is in the middle of its read."""
    command = [sys.executable, "-X", "dev", "-W", "error", PROGRAM, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n", process.communicate()
            threading.Event().wait(0.1)  # it has said so a moment before
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="compares the clocks of two processes")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_who_catches_an_interrupt_goes_on_with_the_same_client(kind, spoken):
    server, told = spoken

    with waiting(kind, "catch", *told) as process:
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=30)

    caught, text = said.splitlines()
    assert float(caught) - sent < 1.0
    assert (text, process.returncode) == ("Hello there", 0)
    assert complaints(complained) == []
    counted = server.counters()
    assert (counted.replies["complete"], counted.closes_before_end) == (1, 1)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_interrupt_that_nobody_catches_ends_the_process_and_its_stream(kind, spoken):
    server, told = spoken

    with waiting(kind, "raise", *told) as process:
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=30)

    assert (said, process.returncode) == ("", -signal.SIGINT)
    lines = complaints(complained)
    assert lines[-1] == "KeyboardInterrupt"
    raised = {
        line for line in lines if re.match(r"\S+(Error|Warning|Exit|Interrupt|ignored)", line)
    }
    # asyncio cancels the task, and shows that first.
    own = {"asyncio.exceptions.CancelledError"} if kind == "async" else set()
    assert raised == {"KeyboardInterrupt"} | own
    server.settle(patience=5.0)
    assert (server.counters().closes_before_end, server.counters().connections_open) == (1, 0)
