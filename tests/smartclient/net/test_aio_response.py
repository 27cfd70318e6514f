"""A reply that comes while its request is still being written is read, whatever the write does.

What a server says before it closes tells why it does: a 413, or a GOAWAY after which the
request can be sent again (httpcore PR#1093 is about errors that hide their cause).
"""

from __future__ import annotations

import asyncio

import pytest

from smartclient._call import Timeout
from smartclient._errors import ExchangeError
from tests.smartclient.net import test_multiplex as http2
from tests.smartclient.net import test_streams as http1
from tests.smartclient.net.h2_server import goaway

TOO_LARGE = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno"
HEAD = [(b":status", b"413")]


async def read_on(response) -> tuple[int, bytes]:
    await response._read_head()
    return response.status, await response.read()


class Http1:
    """A connection whose server refuses what is uploaded."""

    run = staticmethod(http1.run)

    @staticmethod
    def refuse(pair) -> None:
        pair.peer.send(TOO_LARGE)


class Http2:
    run = staticmethod(http2.run)

    @staticmethod
    def refuse(pair) -> None:
        pair.hear()
        pair.server.send_headers(1, HEAD)
        pair.server.send_data(1, b"no", end_stream=True)
        pair.peer.send(pair.server.data_to_send())


@pytest.fixture(params=[Http1, Http2], ids=["http1", "http2"])
def spoken(request):
    return request.param


async def pieces(*then, first=b"x" * 100):
    """A body that waits for what is done between its pieces."""
    yield first
    for step in then:
        await step()
        yield b"x" * 100


def test_reply_that_came_before_a_write_failed_is_read(spoken):
    async def scenario(pair):
        async def refused_and_closed():
            spoken.refuse(pair)
            pair.peer.close()

        response = pair.response(body=pieces(refused_and_closed))
        assert await response._send(b"head")
        assert await read_on(response) == (413, b"no")

    spoken.run(scenario)


def test_reply_that_is_complete_while_the_body_is_being_made_ends_the_upload(spoken):
    async def scenario(pair):
        async def refused():
            spoken.refuse(pair)
            await http2.turns()

        response = pair.response(body=pieces(refused, pytest.fail))
        assert await response._send(b"head")
        assert await read_on(response) == (413, b"no")

    spoken.run(scenario)


def test_reply_that_came_as_the_patience_of_the_write_ended_is_read(spoken):
    async def scenario(pair):
        if spoken is Http2:
            pair.link._is_write_paused = True  # until it is told otherwise
        else:
            pair.connection._is_write_paused = True
        response = pair.response(body=b"x", timeout=Timeout(read=5.0, write=0.0))
        sending = asyncio.create_task(response._send(b"head"))
        await asyncio.sleep(0)
        spoken.refuse(pair)
        await sending
        assert await read_on(response) == (413, b"no")

    spoken.run(scenario)


def test_goaway_that_came_before_a_write_failed_says_that_nothing_was_processed():
    async def scenario(pair):
        async def refused_and_closed():
            pair.peer.send(goaway(0))
            pair.peer.close()

        with pytest.raises(ExchangeError, match="has not processed this one") as error:
            await pair.response(body=pieces(refused_and_closed))._send(b"")
        assert (error.value.kind, error.value.sent) == ("refused", "nothing")

    http2.run(scenario)


def test_what_came_on_an_idle_connection_is_no_reply_to_a_request_it_never_took():
    async def scenario(pair):
        pair.connection.num_exchanges = 1
        pair.peer.send(TOO_LARGE.replace(b"413", b"408"))
        pair.peer.close()
        assert await pair.response(body=b"")._send(b"head") is False

    http1.run(scenario)
