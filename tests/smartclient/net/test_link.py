"""What both kinds of asyncio connections do when a write fails before all was read."""

from __future__ import annotations

import pytest

from smartclient._errors import ExchangeError

from . import test_multiplex, test_streams
from .h2_server import goaway


def test_reply_that_came_before_a_write_failed_counts():
    """Who refuses an upload answers and closes; asyncio then reads no more."""

    async def scenario(pair):
        response = pair.response()
        await response._send(b"head")
        pair.peer.send(test_streams.REPLY)
        pair.peer.close()
        pair.connection._transport.write(b"the rest of the request")
        await response._read_head()
        assert (response.status, await response.read()) == (200, b"ok")

    test_streams.run(scenario)


def test_goaway_that_came_before_a_write_failed_says_what_can_be_sent_again():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"")
        pair.peer.send(goaway(0))
        pair.peer.close()
        pair.link.state.ping()
        assert not pair.link.write_pending()
        with pytest.raises(ExchangeError, match="has not processed") as error:
            await response._read_head()
        assert error.value.kind == "refused"

    test_multiplex.run(scenario)


def test_reset_alone_is_a_broken_connection():
    async def scenario(pair):
        response = pair.response()
        await response._send(b"head")
        pair.peer.close()
        pair.connection._transport.write(b"more")
        with pytest.raises(ExchangeError, match="broke after the request"):
            await response._read_head()

    test_streams.run(scenario)
