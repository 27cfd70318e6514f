"""Typed events as they come."""

from __future__ import annotations

import inspect
import weakref

import pytest

from smartclient._errors import (
    ExchangeError,
    IncompleteStreamError,
    MalformedReplyError,
    OverloadedError,
    SmartClientError,
)
from smartclient._stream import AsyncStream, Stream
from smartclient.testing import a_call
from smartclient.wire.encode import encode
from tests.smartclient.fakes import BLOCKING, DONE, OVERLOAD, START, STOP, a_chunk, a_stream, text

ANSWER = [START, text("Pa"), text("ris"), STOP]
CHAT = "/v1/chat/completions"


def a_typed_stream(world, *pieces, path="/v1/messages", taps=(), **headers):
    """A stream of `pieces`, and the response that it reads from."""
    reply, response = world.reply(a_stream(*pieces, **headers), call=a_call(path=path), taps=taps)
    return (AsyncStream if world.is_async else Stream)(reply), response


def test_both_have_the_same_methods():
    def methods(kind):
        names = {name for name, part in vars(kind).items() if callable(part)}
        return {name.replace("__a", "__", 1) for name in names} - {"aclose", "close"}

    assert methods(Stream) == methods(AsyncStream)
    assert list(inspect.signature(Stream.close).parameters) == ["self"]


def test_events_come_in_their_order(world):
    stream, _ = a_typed_stream(world, *ANSWER)

    events = world.all(stream)

    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_chunks_of_chat_come_without_the_terminal_mark(world):
    stream, _ = a_typed_stream(world, a_chunk("Pa"), a_chunk("ris"), DONE, path=CHAT)

    chunks = world.all(stream)

    assert [chunk.choices[0].delta.content for chunk in chunks] == ["Pa", "ris"]


@pytest.mark.parametrize("size", [1, 7, 4096], ids=["bytes", "sevens", "whole"])
def test_any_split_of_the_bytes_gives_the_same_events(home, size):
    whole = b"".join(ANSWER)
    stream, _ = a_typed_stream(home, *[whole[at : at + size] for at in range(0, len(whole), size)])

    assert len(home.all(stream)) == 7


def test_an_event_can_be_taken_before_the_next_has_come(world):
    stream, response = a_typed_stream(world, START, text("Pa"))

    world.first(stream)

    assert response.num_reads == 1


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([START, text("Pa"), OVERLOAD], id="alone"),
        pytest.param([START + text("Pa") + OVERLOAD], id="in-one-chunk"),
        pytest.param([START, text("Pa") + OVERLOAD + STOP], id="the-end-after-it"),
    ],
)
def test_an_error_in_the_stream_is_raised_in_its_place(world, pieces):
    stream, response = a_typed_stream(world, *pieces, request_id="req_1")

    events = [world.first(stream) for _ in range(3)]
    with pytest.raises(OverloadedError, match="busy") as caught:
        world.first(stream)

    assert events[-1].delta.text == "Pa"
    assert (caught.value.status, caught.value.request_id) == (None, "req_1")
    assert caught.value.partial.content[0].text == "Pa"
    assert len(response.closed) == 1


def test_an_event_that_is_no_json_is_malformed(world):
    stream, _ = a_typed_stream(world, START, text("Pa"), b"data: {oops\n\n", STOP)

    with pytest.raises(MalformedReplyError, match="not what its format promises") as caught:
        world.all(stream)

    assert caught.value.partial.content[0].text == "Pa"


def test_an_error_after_the_terminal_event_is_not_heard(world):
    stream, _ = a_typed_stream(world, START, STOP + OVERLOAD)

    assert world.all(stream)[-1].type == "message_stop"


def test_a_connection_that_breaks_leaves_what_came(world):
    error = ExchangeError("gone", kind="closed", sent="all")
    stream, _ = a_typed_stream(world, START + text("Pa"), error)

    with pytest.raises(ExchangeError) as caught:
        world.all(stream)

    assert caught.value is error
    assert error.partial.content[0].text == "Pa"


@pytest.mark.parametrize(
    ("pieces", "path", "partial"),
    [
        pytest.param([START, text("Pa")], "/v1/messages", "Pa", id="anthropic"),
        pytest.param([a_chunk("Pa")], CHAT, "Pa", id="openai"),
        pytest.param([START, text("Pa") + b"data: {"], "/v1/messages", "Pa", id="half-an-event"),
    ],
)
def test_a_stream_that_ends_early_is_never_taken_for_a_whole(world, pieces, path, partial):
    stream, _ = a_typed_stream(world, *pieces, path=path)

    with pytest.raises(IncompleteStreamError, match="without its terminal event") as caught:
        world.all(stream)

    assert partial in str(caught.value.partial)


def test_a_stream_of_nothing_has_no_partial(world):
    stream, _ = a_typed_stream(world)

    with pytest.raises(IncompleteStreamError, match="after 0 events") as caught:
        world.all(stream)

    assert caught.value.partial is None


def test_a_stream_without_its_done_mark_is_whole_once_its_choices_have_finished(world):
    """Not all who speak OpenAI's format send `[DONE]`."""
    pieces = [a_chunk("Pa"), a_chunk("ris", finish="stop")]
    stream, _ = a_typed_stream(world, *pieces, path=CHAT)

    events = world.all(stream)

    assert [event.choices[0].delta.content for event in events] == ["Pa", "ris"]


def test_a_stream_of_two_choices_is_not_whole_when_one_has_finished(world):
    call = a_call(path=CHAT, payload={"model": "tiny", "n": 2, "stream": True})
    same = a_chunk("", finish="stop")
    reply, _ = world.reply(a_stream(a_chunk("Paris", finish="stop"), same), call=call)

    with pytest.raises(IncompleteStreamError):
        world.all((AsyncStream if world.is_async else Stream)(reply))


@pytest.mark.parametrize("finishing", [[[0, 1]], [[1], [0]]], ids=["in-one-chunk", "one-by-one"])
def test_a_stream_of_two_choices_is_whole_when_both_have_finished(world, finishing):
    call = a_call(path=CHAT, payload={"model": "tiny", "n": 2, "stream": True})
    chunks = [[{"index": at, "finish_reason": "stop"} for at in some] for some in finishing]
    pieces = [b"data: %s\n\n" % encode({"choices": choices}) for choices in chunks]
    reply, _ = world.reply(a_stream(*pieces), call=call)

    events = world.all((AsyncStream if world.is_async else Stream)(reply))

    assert len(events) == len(finishing)


def test_an_exhausted_stream_stays_so(world):
    stream, _ = a_typed_stream(world, *ANSWER)

    world.all(stream)

    assert world.all(stream) == []


def test_a_closed_stream_gives_nothing_more(world):
    stream, response = a_typed_stream(world, *ANSWER)

    world.first(stream)
    world.first(stream)
    world.do(stream.close())

    assert world.all(stream) == []
    assert response.closed == [False]


def test_leaving_the_context_closes(world):
    stream, response = a_typed_stream(world, *ANSWER)

    assert world.enter(stream) is stream
    world.exit(stream)

    assert response.closed == [False]


@pytest.mark.parametrize(
    ("path", "headers", "request_id"),
    [
        pytest.param("/v1/messages", {"request_id": "a"}, "a", id="anthropic"),
        pytest.param(CHAT, {"x_request_id": "b"}, "b", id="openai"),
        pytest.param("/other", {"request_id": "c"}, None, id="unknown"),
    ],
)
def test_the_request_id_is_the_providers(home, path, headers, request_id):
    stream, _ = a_typed_stream(home, path=path, **headers)

    assert stream.request_id == request_id
    assert stream.report is None


@pytest.mark.parametrize(
    ("piece", "headers", "message"),
    [
        pytest.param(b"data: " + b"x" * (33 << 20), {}, "larger than", id="event-too-large"),
        pytest.param(b"none", {"content_encoding": "gzip"}, "content-encoding", id="broken-gzip"),
    ],
)
def test_what_cannot_be_read_is_raised_at_once(world, piece, headers, message):
    """The rest of the stream says nothing any more, and may be endless."""
    stream, response = a_typed_stream(world, piece, *[b"more"] * 9, **headers)

    with pytest.raises(SmartClientError, match=message):
        world.first(stream)

    assert (response.num_reads, response.closed) == (1, [False])


def test_events_before_what_cannot_be_read_come_first(world):
    stream, _ = a_typed_stream(world, START, text("Pa") + b"data: {", b"x" * (33 << 20))
    world.do(stream._body.fetch())
    world.do(stream._body.fetch())
    world.do(stream._body.fetch())

    events = [world.first(stream) for _ in range(3)]
    with pytest.raises(SmartClientError, match="larger than") as caught:
        world.first(stream)

    assert events[-1].delta.text == "Pa"
    assert caught.value.partial.content[0].text == "Pa"


def test_the_terminal_event_is_the_end(world):
    """What is left of the transfer is read later, never on the caller's time."""
    never = AssertionError("nobody waits for this")
    stream, response = a_typed_stream(world, *ANSWER, never)

    assert world.all(stream)[-1].type == "message_stop"
    assert response.closed == [True]


@pytest.mark.usefixtures("no_collector")
def test_a_failed_stream_is_freed_at_once():
    stream, _ = a_typed_stream(BLOCKING, START, OVERLOAD)
    body = weakref.ref(stream._body)

    with pytest.raises(OverloadedError):
        list(stream)
    del stream

    assert body() is None


def test_an_error_is_told_once(world):
    stream, _ = a_typed_stream(world, START, OVERLOAD)

    with pytest.raises(OverloadedError):
        world.all(stream)

    assert world.all(stream) == []


@pytest.mark.usefixtures("no_collector")
def test_a_dropped_stream_is_cut_at_once(home):
    stream, response = a_typed_stream(home, *ANSWER)
    home.first(stream)

    del stream

    assert response.num_cuts == 1
