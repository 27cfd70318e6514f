"""Answers that stream in, in each format: events, text, and what they add up to."""

from __future__ import annotations

import inspect
import json
from typing import Any, NamedTuple

import pytest

from smartclient import _answer_stream as module
from smartclient._errors import IncompleteStreamError, StatusError
from smartclient._stream import AsyncStream, Stream
from smartclient.testing import a_call
from tests.smartclient.fakes import (
    DONE,
    OVERLOAD,
    RESPONSE,
    START,
    STOP,
    a_chunk,
    a_stream,
    an_event,
    text,
)


class Format(NamedTuple):
    """How one format tells "Paris", and what it calls the whole of it."""

    kind: str
    path: str
    pieces: list[bytes]
    whole: str


def _delta(piece: str) -> bytes:
    return an_event("response.output_text.delta", output_index=0, content_index=0, delta=piece)


CREATED = an_event("response.created", response=RESPONSE | {"status": "in_progress", "output": []})
MESSAGES = Format(
    "MessageStream", "/v1/messages", [START, text("Pa"), text("ris"), STOP], "message"
)
CHAT = Format(
    "ChatCompletionStream",
    "/v1/chat/completions",
    [a_chunk("Pa"), a_chunk("ris", finish="stop"), DONE],
    "completion",
)
RESPONSES = Format(
    "ResponseStream",
    "/v1/responses",
    [
        CREATED,
        _delta("Pa"),
        _delta("ris"),
        an_event("response.completed", response=RESPONSE),
    ],
    "response",
)
in_each_format = pytest.mark.parametrize(
    "form", [MESSAGES, CHAT, RESPONSES], ids=lambda form: form.whole
)


def an_answer_stream(world, form, *pieces, **headers):
    """A helper's stream of `pieces`, and the response that it reads from."""
    answer = a_stream(*(pieces or form.pieces), **headers)
    reply, response = world.reply(answer, call=a_call(path=form.path))
    if not world.is_async:
        return getattr(module, form.kind)(lambda: Stream(reply)), response

    async def start():
        return AsyncStream(reply)

    return getattr(module, f"Async{form.kind}")(start), response


def final(world, form, stream) -> Any:
    return world.do(getattr(stream, f"get_final_{form.whole}")())


@pytest.mark.parametrize("kind", ["AnswerStream", MESSAGES.kind, CHAT.kind, RESPONSES.kind])
def test_both_sides_have_the_same_methods(kind):
    def methods(kind):
        names = {name for name, _ in inspect.getmembers(kind) if not name.startswith("__")}
        return names - {"aclose"}

    assert methods(getattr(module, kind)) == methods(getattr(module, f"Async{kind}"))


@in_each_format
def test_an_answer_adds_up(world, form):
    stream, _ = an_answer_stream(world, form)

    world.enter(stream)
    whole = final(world, form, stream)
    world.exit(stream)

    assert "Paris" in json.dumps(whole.to_dict())
    assert whole == getattr(stream, f"current_{form.whole}")


@in_each_format
def test_the_text_of_all_is_joined(world, form):
    stream, _ = an_answer_stream(world, form)

    world.enter(stream)

    assert world.do(stream.get_final_text()) == "Paris"


@in_each_format
def test_text_comes_piece_by_piece(world, form):
    stream, _ = an_answer_stream(world, form)

    world.enter(stream)

    assert world.all(stream.text_stream) == ["Pa", "ris"]


@in_each_format
def test_a_final_answer_outlives_its_stream(world, form):
    stream, _ = an_answer_stream(world, form)

    world.enter(stream)
    world.do(stream.until_done())
    world.exit(stream)

    assert world.do(stream.get_final_text()) == "Paris"


@in_each_format
def test_half_an_answer_is_no_final_one(world, form):
    """A stream that its reader left early must not pass for whole."""
    stream, _ = an_answer_stream(world, form)

    world.enter(stream)
    world.first(stream)
    world.exit(stream)
    with pytest.raises(IncompleteStreamError, match=r"left after .* before its end") as left:
        final(world, form, stream)

    assert left.value.partial == getattr(stream, f"current_{form.whole}")


def test_a_stream_that_ends_without_its_mark_is_whole_once_its_choices_are(world):
    """Not all who speak Chat Completions send [DONE]."""
    stream, _ = an_answer_stream(world, CHAT, *CHAT.pieces[:-1])

    world.enter(stream)

    assert world.do(stream.get_final_text()) == "Paris"


def test_events_and_the_answer_so_far(world):
    stream, _ = an_answer_stream(world, MESSAGES, request_id="req_1")

    world.enter(stream)
    assert stream.current_message is None
    for _ in range(3):
        world.first(stream)

    assert stream.current_message.content[0].text == "Pa"
    assert stream.request_id == "req_1"
    assert stream.report is None


def test_an_answer_can_be_closed_early(world):
    stream, response = an_answer_stream(world, MESSAGES)

    world.enter(stream)
    world.do(stream.close())

    assert response.closed == [False]


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda stream, world: world.all(stream), id="events"),
        pytest.param(lambda stream, world: world.all(stream.text_stream), id="text"),
        pytest.param(lambda stream, world: stream.current_message, id="message"),
    ],
)
def test_a_stream_that_was_not_entered_says_so(world, use):
    stream, _ = an_answer_stream(world, MESSAGES)

    with pytest.raises(RuntimeError, match=r"enter it first, (async )?with"):
        use(stream, world)


def test_an_error_passes_through_the_helpers(world):
    stream, _ = an_answer_stream(world, MESSAGES, START, text("Pa"), OVERLOAD)

    world.enter(stream)
    with pytest.raises(StatusError, match="busy"):
        world.do(stream.get_final_text())
    with pytest.raises(IncompleteStreamError, match="left after 3 events"):
        world.do(stream.get_final_text())
