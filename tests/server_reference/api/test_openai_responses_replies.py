from __future__ import annotations

import pytest

from server_reference.api.chat import ChatRequest
from server_reference.api.errors import ApiError
from server_reference.api.events import (
    Finished,
    TextDelta,
)
from server_reference.api.openai_responses import OpenAIResponses
from tests.server_reference.api.written import STARTED, STREAMED, a_call, as_reply, as_stream

WIRE = OpenAIResponses(now=lambda: 1_700_000_000.5)
CALL = a_call()
ENDED = Finished("tool_calls", 7)


def stream(*what):
    return as_stream(WIRE, STREAMED, STARTED, *what)


def test_a_call_is_an_item_with_events_of_its_own():
    found = stream(TextDelta("Look."), *CALL, ENDED)

    assert [
        (name.removeprefix("response."), data.get("output_index")) for name, data in found[2:]
    ] == [
        ("output_item.added", 0),
        ("content_part.added", 0),
        ("output_text.delta", 0),
        ("output_text.done", 0),
        ("content_part.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("function_call_arguments.delta", 1),
        ("function_call_arguments.delta", 1),
        ("function_call_arguments.done", 1),
        ("output_item.done", 1),
        ("completed", None),
    ]
    assert [data["sequence_number"] for _, data in found] == list(range(14))
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "at"}
    assert found[8][1]["item"] == item | {"status": "in_progress", "arguments": ""}
    assert found[12][1]["item"] == item | {"status": "completed", "arguments": '{"city": "Rome"}'}
    assert {data["item_id"] for name, data in found if "arguments" in name} == {"fc_1"}


@pytest.mark.parametrize(
    "what",
    [
        pytest.param([TextDelta("a"), ENDED], id="text"),
        pytest.param([*CALL, ENDED], id="call"),
        pytest.param([*CALL, TextDelta("b"), ENDED], id="text-after-a-call"),
        pytest.param([TextDelta("a"), *CALL[:2], Finished("length", 3)], id="cut-call"),
        pytest.param([ENDED], id="nothing"),
    ],
)
def test_items_done_are_the_output_of_both_forms(what):
    found = stream(*what)
    whole = as_reply(WIRE, STREAMED, STARTED, *what)

    done = [data["item"] for name, data in found if name == "response.output_item.done"]
    added = [data["item"] for name, data in found if name == "response.output_item.added"]
    assert done == found[-1][1]["response"]["output"] == whole["output"]
    assert [item["id"] for item in added] == [item["id"] for item in done]
    assert len({item["id"] for item in done}) == len(done)


def test_a_cut_call_is_incomplete_and_so_is_the_response():
    *_, (name, last) = stream(TextDelta("a"), *CALL[:2], Finished("length", 3))

    text, call = last["response"]["output"]
    assert name == "response.incomplete"
    assert (text["status"], call["status"]) == ("completed", "incomplete")
    assert call["arguments"] == '{"city"'


def test_a_failure_holds_the_items_so_far():
    *_, (name, last) = stream(*CALL, TextDelta("b"), ApiError("internal", "it broke"))

    assert name == "response.failed"
    assert [one["status"] for one in last["response"]["output"]] == ["completed", "incomplete"]


def test_a_response_repeats_what_was_asked():
    asked = {"tools": [{"type": "function", "name": "at"}], "tool_choice": "required"}
    request = ChatRequest(model="tiny", messages=[], max_tokens=9, repeated=asked)

    reply = as_reply(WIRE, request, STARTED, *CALL, ENDED)

    assert (reply["tools"], reply["tool_choice"]) == (asked["tools"], "required")
    assert reply["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
