from __future__ import annotations

import json

import pytest

from server_reference.api.anthropic_messages import AnthropicMessages
from server_reference.api.events import (
    ArgumentsDelta,
    Finished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from tests.server_reference.api.written import STARTED, STREAMED, a_call, as_reply, as_stream

WIRE = AnthropicMessages()
CALL = a_call()
ENDED = Finished("tool_calls", 7)


def stream(*what):
    """Names and data after the start."""
    return as_stream(WIRE, STREAMED, STARTED, *what)[2:]


def shape(found):
    return [
        (name.removeprefix("content_block_"), data.get("index"), *data.get("delta", {}).values())
        for name, data in found
    ]


def test_a_call_is_a_block_of_its_own():
    found = stream(TextDelta("Look."), *CALL, ENDED)

    assert shape(found) == [
        ("start", 0),
        ("delta", 0, "text_delta", "Look."),
        ("stop", 0),
        ("start", 1),
        ("delta", 1, "input_json_delta", '{"city"'),
        ("delta", 1, "input_json_delta", ': "Rome"}'),
        ("stop", 1),
        ("message_delta", None, "tool_use", None),
        ("message_stop", None),
    ]
    assert found[3][1]["content_block"] == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "at",
        "input": {},
    }


def test_text_after_a_call_has_an_index_of_its_own():
    """Seen elsewhere: it was sent as a text_delta of the call's block."""
    found = stream(*CALL, TextDelta("Done."), Finished("stop_sequence", 9, "END"))

    assert shape(found)[4:] == [
        ("start", 1),
        ("delta", 1, "text_delta", "Done."),
        ("stop", 1),
        ("message_delta", None, "stop_sequence", "END"),
        ("message_stop", None),
    ]


@pytest.mark.parametrize(
    "what",
    [
        pytest.param([TextDelta("a")], id="text"),
        pytest.param(CALL, id="call"),
        pytest.param(CALL[:2], id="cut-call"),
        pytest.param([*CALL, *CALL, TextDelta("b")], id="calls-and-text"),
    ],
)
def test_every_block_stops_before_the_message_ends(what):
    found = shape(stream(*what, Finished("length", 9)))

    blocks = [one for one in found if one[0] in ("start", "stop")]
    assert blocks == [
        (name, index) for index in range(len(blocks) // 2) for name in ("start", "stop")
    ]
    assert [one[0] for one in found[-2:]] == ["message_delta", "message_stop"]


def test_a_whole_message_holds_the_same():
    reply = as_reply(WIRE, STREAMED, STARTED, TextDelta("Look."), *CALL, ENDED)

    assert reply["content"] == [
        {"type": "text", "text": "Look."},
        {"type": "tool_use", "id": "toolu_1", "name": "at", "input": {"city": "Rome"}},
    ]
    assert reply["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(r'"\ud83d"', id="half-a-surrogate-pair"),
        pytest.param("1e999", id="too-large"),
    ],
)
def test_a_whole_message_holds_whatever_a_model_wrote(value):
    arguments = f'{{"city": {value}}}'
    call = [ToolCallStarted("1", "at"), ArgumentsDelta(arguments), ToolCallFinished()]

    reply = as_reply(WIRE, STREAMED, STARTED, *call, ENDED)

    assert reply["content"][0]["input"] == json.loads(arguments)


@pytest.mark.parametrize(
    ("what", "content"),
    [
        pytest.param(CALL[:2], [{"type": "text", "text": '{"city"'}], id="within-arguments"),
        pytest.param(CALL[:1], [], id="before-arguments"),
    ],
)
def test_a_cut_call_is_no_object_and_stays_text(what, content):
    reply = as_reply(WIRE, STREAMED, STARTED, *what, Finished("length", 3))

    assert (reply["content"], reply["stop_reason"]) == (content, "max_tokens")
