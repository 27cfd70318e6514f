"""Streams that break under an SDK: its caller must see it, as an error of that SDK."""

from __future__ import annotations

import pickle

import anthropic
import pytest

import smartclient
from tests.smartclient.fakes import START, a_chunk, text

from .raw_server import RawServer
from .sdk_sides import SIDES, chunked, event_stream

pytestmark = pytest.mark.sdk


@pytest.fixture(params=SIDES)
def side(request):
    return request.param


def begun(side) -> bytes:
    return START + text("Pa") if side.is_anthropic else a_chunk("Pa")


def one_reply(data: bytes, how: str = "close"):
    def script(peer):
        peer.request()
        peer.send(data)
        getattr(peer, how)()

    return script


@pytest.mark.parametrize("frame", [event_stream, chunked], ids=["in-good-order", "mid-body"])
def test_a_stream_that_ends_early_is_no_answer(side, frame):
    """pydantic-ai#6610: half an answer was accepted as a whole one."""
    with RawServer(one_reply(frame(begun(side)))) as server:
        client = side.client(server)

        with pytest.raises(side.package.APIConnectionError) as caught:
            side.stream(client)

    error = caught.value if side.is_anthropic else caught.value.__cause__
    assert isinstance(error, smartclient.ExchangeError)
    assert isinstance(error, side.family.TransportError)
    assert smartclient.last_report(client).attempts[0].status == 200
    assert server.num_connections == 1


def test_a_reset_connection_is_the_sdks_own_error(side):
    """anthropic's SDK lets the errors of its HTTP client out of a stream (turnstone#1050)."""
    with (
        RawServer(one_reply(chunked(begun(side)), "reset")) as server,
        pytest.raises(side.package.APIConnectionError),
    ):
        side.stream(side.client(server))


def test_such_an_error_pickles():
    side = SIDES[2].values[0]
    with (
        RawServer(one_reply(event_stream(begun(side)))) as server,
        pytest.raises(anthropic.APIConnectionError) as caught,
    ):
        side.stream(side.client(server))

    copy = pickle.loads(pickle.dumps(caught.value))

    assert (copy.kind, copy.message) == ("closed", str(caught.value))
    assert isinstance(copy, anthropic.APIConnectionError)


def test_a_stream_that_finished_without_its_done_mark_is_whole():
    side = SIDES[0].values[0]
    pieces = [a_chunk("Pa"), a_chunk("ris", finish="stop")]
    with RawServer(one_reply(event_stream(*pieces))) as server:
        assert len(side.stream(side.client(server))) == 2
