"""What is left of a connection to a real server once its reply has come, or nobody waits for it.

pytest makes an error of each transport that is left to the garbage collector.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading

import pytest

from server_reference.scripted import Authority
from server_reference.scripted.ops import Body, End, Head
from server_reference.scripted.request import Received
from server_reference.scripted.upstream import Upstream

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
GET = Received("GET", "/v1/models")


@pytest.fixture(scope="module")
def authority():
    return Authority()


@contextlib.contextmanager
def silent_server(authority, reply=b""):
    """Replies over TLS, and then neither speaks nor closes."""
    done, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def serve():
        context = authority.context(http2=False)
        with (
            contextlib.suppress(OSError),
            listener.accept()[0] as raw,
            context.wrap_socket(raw, server_side=True) as tls,
        ):
            tls.recv(65_536)
            tls.sendall(reply)
            done.wait()

    thread, address = threading.Thread(target=serve), listener.getsockname()
    thread.start()
    try:
        yield Upstream(f"https://127.0.0.1:{address[1]}", ca_file=authority.ca_file)
    finally:
        done.set()
        socket.create_connection(address).close()  # where none came, it still waits for one
        thread.join()
        listener.close()


async def asked(upstream):
    return [op async for op in upstream.ask(GET)]


def test_over_tls_it_does_not_wait_for_the_servers_end(authority):
    with silent_server(authority, OK) as upstream:
        head, *rest = asyncio.run(asked(upstream))
        gc.collect()

    assert isinstance(head, Head)
    assert rest == [Body(b"ok"), End()]


def test_whoever_is_cancelled_leaves_nothing(authority):
    """Before there is a connection, in its handshake, or after it."""

    async def cancelled_after(milliseconds):
        task = asyncio.ensure_future(asked(upstream))
        await asyncio.sleep(milliseconds / 1000)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.sleep(0)

    for milliseconds in range(12):
        with silent_server(authority) as upstream:
            asyncio.run(cancelled_after(milliseconds))
    gc.collect()
