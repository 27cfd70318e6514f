"""A script that is written while it is played: what the recorder is made of."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

import server_reference
from server_reference.scripted import ManualClock
from server_reference.scripted.ops import Body, End, Head
from tests.end_to_end.raw_http import until
from tests.end_to_end.raw_http2 import RawHttp2
from tests.server_reference.scripted.raw_client import RawClient, chat


class Http1Side:
    """An HTTP/1.1 client that asks, and reads up to a piece of the body."""

    def __init__(self, server):
        self._client = RawClient(server)
        self.close = self._client.close

    def ask(self):
        self._client.send(chat())

    def read_to(self, data):
        return self._client.read(until=data)


class Http2Side:
    """Likewise over HTTP/2."""

    def __init__(self, server):
        self._client = RawHttp2(server)
        self.close = self._client.close

    def ask(self):
        self._client.ask(body=chat())

    def read_to(self, data):
        return b"".join(one[2] for one in self._client.until("DATA", 1, data) if one[0] == "DATA")


both = pytest.mark.parametrize("side", [Http1Side, Http2Side], ids=["http1", "http2"])


@both
def test_a_function_may_write_its_script_while_it_is_played(side):
    clock = ManualClock()

    async def slowly(received):
        yield Head(200)
        yield Body(b"first")
        await clock.sleep_async(60)
        yield Body(b"last")
        yield End()

    with server_reference.scripted(slowly) as server, closing(side(server)) as client:
        client.ask()
        early = client.read_to(b"first")
        until(lambda: clock.sleeping)
        clock.advance(60)

        assert b"last" not in early
        assert b"last" in client.read_to(b"last")


@both
def test_such_a_function_is_told_that_the_client_has_gone(side):
    over = threading.Event()

    async def endless(received):
        try:
            yield Head(200)
            yield Body(b"first")
            await ManualClock().sleep_async(60)
        finally:
            over.set()

    with server_reference.scripted(endless) as server, closing(side(server)) as client:
        client.ask()
        client.read_to(b"first")
        client.close()

        assert over.wait(10)
