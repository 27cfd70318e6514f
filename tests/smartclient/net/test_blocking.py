"""The blocking and the asyncio face are one; what they do is in `tests/end_to_end/`."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from smartclient.net import aio, aio_response, blocking


def face(cls: type) -> list[tuple[str, str]]:
    methods = ((name, value) for name, value in vars(cls).items() if inspect.isfunction(value))
    public = [(name, value) for name, value in methods if name[0] != "_" or name == "__init__"]
    signatures = ((name, str(inspect.signature(value))) for name, value in public)
    # Over HTTP/2 a thread's reply comes in the background.
    return [(name, text.replace(" | BackgroundResponse", "")) for name, text in signatures]


def test_connections_have_the_same_methods_in_the_same_order():
    assert face(blocking.Connections) == face(aio.AsyncConnections)


def test_responses_have_the_same_methods_in_the_same_order():
    ours, theirs = face(blocking.Response)[1:], face(aio_response.Response)[1:]

    assert ours == theirs
    assert [name for name, _ in ours] == ["read", "close", "cut", "abandon"]


@pytest.mark.parametrize("name", ["counts", "close_idle"])
def test_functions_are_the_same(name):
    one, other = getattr(blocking, name), getattr(aio, name)

    assert inspect.signature(one) == inspect.signature(other)


def test_blocking_connections_need_neither_ssl_nor_asyncio():
    """A first call over plain HTTP must not pay for what it does not use."""
    program = (
        "import sys, smartclient.net.blocking\n"
        "print(*{'ssl', 'asyncio', 'httpx', 'h2'} & set(sys.modules))"
    )

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (found.stdout.strip(), found.stderr) == ("", "")
