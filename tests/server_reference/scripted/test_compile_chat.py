from __future__ import annotations

import json

from server_reference.scripted.answers import Answer, ErrorAnswer, ToolCall, Usage
from server_reference.scripted.compile import Compiler
from tests.server_reference.scripted.received import a_request, joined

CALLS = Answer(tool_calls=[ToolCall("a", {"x": 1}, id="c1"), ToolCall("b", "{", id="c2")])


def whole(answer, **fields):
    return json.loads(joined(Compiler().answer(answer, a_request("openai.chat", **fields))))


def lines(answer, **fields):
    """The data of each event, the last one as text."""
    request = a_request("openai.chat", stream=True, **fields)
    data = joined(Compiler().answer(answer, request)).decode()
    found = [line.removeprefix("data: ") for line in data.removesuffix("\n\n").split("\n\n")]
    return [*map(json.loads, found[:-1]), found[-1]]


def test_a_whole_completion_has_one_choice():
    completion = whole(Answer("Hi there"), model="gpt")

    assert completion["choices"][0]["message"]["content"] == "Hi there"
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert (completion["object"], completion["model"]) == ("chat.completion", "gpt")


def test_usage_has_cached_tokens_in_the_input():
    usage = whole(Answer("x", usage=Usage(uncached=3, cache_read=7, output=5, reasoning=2)))[
        "usage"
    ]

    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (
        10,
        5,
        15,
    )
    assert usage["prompt_tokens_details"]["cached_tokens"] == 7
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 2


def test_a_stream_starts_with_the_role_and_ends_with_done():
    *chunks, done = lines(Answer("Hi there"))

    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    assert [delta["content"] for delta in deltas[1:-1]] == ["Hi", " there"]
    assert (chunks[-1]["choices"][0]["finish_reason"], done) == ("stop", "[DONE]")


def test_usage_comes_last_when_it_is_asked_for():
    *chunks, _ = lines(Answer("Hi"), stream_options={"include_usage": True})

    assert (chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]) == ([], 1)
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)


def test_usage_does_not_come_unasked():
    *chunks, _ = lines(Answer("Hi"))

    assert [chunk for chunk in chunks if "usage" in chunk] == []


def test_tool_calls_are_told_apart_by_their_index():
    *chunks, _ = lines(CALLS)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    parts = [part for delta in deltas for part in delta.get("tool_calls", [])]

    assert [part["id"] for part in parts if "id" in part] == ["c1", "c2"]
    assert "".join(p["function"]["arguments"] for p in parts if p["index"] == 0) == '{"x":1}'


def test_a_whole_tool_call_has_its_arguments_as_text():
    message = whole(CALLS)["choices"][0]["message"]

    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ['{"x":1}', "{"]
    assert message["content"] is None


def test_a_stream_can_break_off_with_an_error():
    last = lines(Answer("Hi", error=ErrorAnswer(503)))[-1]

    assert json.loads(last)["error"]["code"] == "server_is_overloaded"


def test_thinking_is_what_other_servers_name_reasoning_content():
    assert whole(Answer("x", thinking="hm"))["choices"][0]["message"]["reasoning_content"] == "hm"
