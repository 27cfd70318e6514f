from __future__ import annotations

import json

from server_reference.scripted.answers import Answer, ErrorAnswer, ToolCall, Usage
from server_reference.scripted.compile import Compiler
from tests.server_reference.scripted.received import a_request, joined

EVERYTHING = Answer(
    "Hi there",
    thinking="Let me see",
    tool_calls=[ToolCall("weather", {"city": "Oslo"}, id="toolu_1")],
    usage=Usage(uncached=3, cache_read=7, cache_write={"5m": 4, "1h": 5}, output=20, reasoning=3),
)


def whole(answer, **fields):
    return json.loads(joined(Compiler().answer(answer, a_request(**fields))))


def events(answer, **fields):
    """Each event's name, which its data repeats, and its data."""
    data = joined(Compiler().answer(answer, a_request(stream=True, **fields))).decode()
    found = []
    for block in data.removesuffix("\n\n").split("\n\n"):
        name, line = block.split("\n")
        fields = json.loads(line.removeprefix("data: "))
        assert name == f"event: {fields['type']}"
        found.append(fields)
    return found


def test_a_whole_message_has_its_blocks_in_order():
    message = whole(EVERYTHING)

    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    assert message["content"][2]["input"] == {"city": "Oslo"}
    assert (message["stop_reason"], message["model"]) == ("tool_use", "tiny")


def test_usage_leaves_cached_tokens_out_of_the_input():
    usage = whole(EVERYTHING)["usage"]

    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (3, 7)
    assert usage["cache_creation_input_tokens"] == 9
    assert usage["cache_creation"] == {
        "ephemeral_5m_input_tokens": 4,
        "ephemeral_1h_input_tokens": 5,
    }


def test_a_stream_opens_and_closes_every_block():
    names = [event["type"].removeprefix("content_block_") for event in events(Answer("Hi there"))]

    assert names == [
        "message_start", "ping", "start", "delta", "delta", "stop", "message_delta", "message_stop"
    ]  # fmt: skip


def test_blocks_of_a_stream_are_numbered():
    starts = [event for event in events(EVERYTHING) if event["type"] == "content_block_start"]

    assert [(one["index"], one["content_block"]["type"]) for one in starts] == [
        (0, "thinking"), (1, "text"), (2, "tool_use")
    ]  # fmt: skip


def test_pieces_of_arguments_make_the_arguments():
    deltas = [event["delta"] for event in events(EVERYTHING) if "delta" in event]

    pieces = [delta["partial_json"] for delta in deltas if "partial_json" in delta]

    assert json.loads("".join(pieces)) == {"city": "Oslo"}


def test_counts_at_the_end_replace_those_at_the_start():
    stream = events(EVERYTHING)

    assert stream[0]["message"]["usage"]["output_tokens"] == 1
    assert stream[-2]["usage"]["output_tokens"] == 20


def test_a_stream_can_break_off_with_an_error():
    stream = events(Answer("Hi", error=ErrorAnswer(529)))

    assert stream[-1]["error"] == {"type": "overloaded_error", "message": "overloaded"}
    assert "message_stop" not in [event["type"] for event in stream]


def test_arguments_that_are_no_json_are_text_in_a_whole_message():
    message = whole(Answer(tool_calls=[ToolCall("f", '{"a":')]))

    assert message["content"][0]["input"] == '{"a":'


def test_no_text_is_no_block():
    assert whole(Answer(""))["content"] == []
