from __future__ import annotations

import json
import math

import pytest

from server_reference.scripted.ops import Body, End, Fin, Head, Pause, Reset, Wait
from server_reference.scripted.recording import Exchange, Request
from server_reference.scripted.replay import Replay
from server_reference.scripted.request import Received
from server_reference.scripted.rules import ExhaustedError, NoRuleError
from tests.server_reference.scripted.received import a_request
from tests.server_reference.scripted.test_recording import a_recording, a_reply


def recorded(*replies, received=None):
    asked = Request.of(received or a_request())
    return a_recording(*(Exchange(asked, reply) for reply in replies))


def test_a_reply_is_played_as_it_came():
    reply = a_reply(b"a", b"\xff", ended_after=0.25)

    script = Replay(recorded(reply))(a_request())

    head = Head(200, (("content-type", "text/plain"),), "OK", "chunked", None)
    assert script == [Wait(0.5), head, Body(b"a"), Body(b"\xff"), Wait(0.25), End()]


@pytest.mark.parametrize(
    ("speed", "waits"), [pytest.param(2.0, [Wait(0.25)]), pytest.param(math.inf, [])]
)
def test_it_may_be_played_faster(speed, waits):
    script = Replay(recorded(a_reply()), speed=speed)(a_request())

    assert [op for op in script if isinstance(op, Wait)] == waits


@pytest.mark.parametrize(
    ("ending", "op"), [("end", End()), ("fin", Fin()), ("reset", Reset()), ("unfinished", Pause())]
)
def test_it_ends_as_it_ended(ending, op):
    assert Replay(recorded(a_reply(b"x", ending=ending)))(a_request())[-1] == op


def test_the_same_request_gets_what_was_recorded_for_it_in_order():
    replay = Replay(recorded(a_reply(status=529), a_reply(status=200)))

    statuses = [replay(a_request())[1].status for _ in range(2)]

    assert statuses == [529, 200]
    assert replay.left == []


def test_it_is_not_played_once_more_than_recorded():
    replay = Replay(recorded(a_reply(), a_reply()))
    for _ in range(2):
        replay(a_request())

    with pytest.raises(ExhaustedError, match=r"recorded 2 times \(exchange 1, 2\) and asked"):
        replay(a_request())


def test_json_is_compared_by_its_value_and_headers_are_not():
    body = json.loads(a_request().body)
    turned = json.dumps(dict(reversed(body.items())), indent=3).encode()
    asked = Received("POST", "/v1/messages", (("x-new", "1"),), turned)

    assert Replay(recorded(a_reply()))(asked)


def test_secrets_may_differ():
    one = Received("POST", "/a?key=abcdefgh", (("x-api-key", "abcdefgh"),), b"I am abcdefgh")
    other = Received("POST", "/a?key=12345678", (("x-api-key", "12345678"),), b"I am 12345678")

    assert Replay(recorded(a_reply(), received=one))(other)


def test_a_changed_request_says_what_it_differs_in_from_the_nearest():
    near, far = a_request(user="Hi"), a_request("openai.chat", user="Hi", seed=1)
    exchanges = [Exchange(Request.of(one), a_reply()) for one in (far, near)]

    with pytest.raises(NoRuleError) as caught:
        Replay(a_recording(*exchanges))(a_request(user="Hello"))

    assert str(caught.value) == (
        "POST /v1/messages was not recorded; against exchange 2 of 2, messages[0].content: "
        "recorded 'Hi', asked 'Hello'; record again"
    )


def test_another_target_is_a_change_too():
    with pytest.raises(NoRuleError, match="target: recorded '/v1/messages', asked '/v1/chat"):
        Replay(recorded(a_reply()))(a_request("openai.chat"))


def test_many_changes_are_counted():
    fields = {f"f{number}": number for number in range(8)}

    with pytest.raises(NoRuleError, match="f4: recorded without it, asked 4; and 3 more; record"):
        Replay(recorded(a_reply()))(a_request(**fields))


def test_places_may_be_left_out_of_the_comparison():
    replay = Replay(recorded(a_reply(), received=a_request(metadata={"id": 1})), ignore="metadata")

    assert replay(a_request(metadata={"id": 2}))


def test_an_empty_recording_says_so():
    with pytest.raises(NoRuleError, match="the recording is empty"):
        Replay(a_recording())(a_request())


@pytest.mark.parametrize("speed", [0, -1, math.nan])
def test_a_speed_goes_forward(speed):
    with pytest.raises(ValueError, match="speed must be above 0"):
        Replay(a_recording(), speed=speed)
