from __future__ import annotations

import json

import pytest

from server_reference.scripted.answers import Answer, ErrorAnswer, ToolCall, Usage
from server_reference.scripted.compile import Compiler
from tests.server_reference.scripted.received import a_request, joined

TOOL = Answer(thinking="hm", tool_calls=[ToolCall("weather", {"city": "Oslo"}, id="call_1")])


def whole(answer, **fields):
    return json.loads(joined(Compiler().answer(answer, a_request("openai.responses", **fields))))


def events(answer, **fields):
    request = a_request("openai.responses", stream=True, **fields)
    blocks = joined(Compiler().answer(answer, request)).decode().removesuffix("\n\n").split("\n\n")
    found = [json.loads(block.partition("\ndata: ")[2]) for block in blocks]
    assert [f"event: {one['type']}" for one in found] == [b.partition("\n")[0] for b in blocks]
    return found


def names(answer):
    return [event["type"].removeprefix("response.") for event in events(answer)]


def test_a_text_streams_in_the_documented_order():
    assert names(Answer("Hi there")) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


def test_a_tool_call_follows_the_reasoning():
    assert names(TOOL) == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


@pytest.mark.parametrize("answer", [Answer("Hi"), TOOL, Answer("Hi", error=ErrorAnswer(500))])
def test_events_are_numbered_without_a_hole(answer):
    numbers = [event["sequence_number"] for event in events(answer)]

    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_the_last_event_says_how_it_ended(reason, status, details):
    last = events(Answer("Hi", stop_reason=reason))[-1]

    assert last["type"] == f"response.{status}"
    assert (last["response"]["status"], last["response"]["incomplete_details"]) == (status, details)


def test_a_stream_can_fail():
    last = events(Answer("Hi", error=ErrorAnswer(500, message="boom")))[-1]

    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"] == {"code": "server_error", "message": "boom"}


def test_the_last_event_holds_the_whole_response():
    whole_one, last = whole(Answer("Hi there")), events(Answer("Hi there"))[-1]["response"]

    assert last["output"] == whole_one["output"]
    assert last["output"][0]["content"][0]["text"] == "Hi there"


def test_the_request_s_settings_are_repeated():
    response = whole(Answer("x"), instructions="Be brief.", temperature=0.5)

    assert (response["instructions"], response["temperature"]) == ("Be brief.", 0.5)
    assert response["tool_choice"] == "auto"


def test_usage_has_cached_tokens_in_the_input():
    usage = whole(Answer("x", usage=Usage(uncached=1, cache_read=2, cache_write={"30m": 4})))[
        "usage"
    ]

    assert (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]) == (7, 2)
    assert usage["input_tokens_details"]["cache_write_tokens"] == 4
