from __future__ import annotations

import json
from dataclasses import replace

import pytest

from server_reference.api.errors import ApiError
from server_reference.api.events import Finished, Started, TextDelta
from server_reference.api.openai_responses import IGNORED, LOGPROBS, OpenAIResponses, read_request
from tests.server_reference.api.written import as_reply, as_stream

WIRE = OpenAIResponses(now=lambda: 1_700_000_000.5)
STOP = Finished("stop", 2)
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 12,
}


def a_body(**fields):
    return json.dumps({"model": "tiny", "input": "Hello"} | fields).encode()


def a_stream(*what, **fields):
    """What a writer makes of an event stream: names and data."""
    return as_stream(WIRE, read_request(a_body(stream=True, **fields)), *what)


def a_reply(finished=STOP, text="ab", **fields):
    request = read_request(a_body(**fields))
    return as_reply(WIRE, request, Started(10, 4), TextDelta(text), finished)


def user(content, **more):
    return {"role": "user", "content": content, **more}


# What is read.


def test_a_string_is_a_users_message():
    request = read_request(a_body(input="Hi", max_output_tokens=9, temperature=2, top_p=0.5))

    assert request.messages == [{"role": "user", "content": "Hi"}]
    assert (request.max_tokens, request.temperature, request.top_p) == (9, 2.0, 0.5)


def test_items_are_messages():
    request = read_request(
        a_body(
            instructions="Be brief.",
            input=[
                {"role": "developer", "content": "In French."},
                {"role": "system", "content": [{"type": "input_text", "text": "Now."}]},
                user([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]),
                {"type": "message", "role": "assistant", "content": "Yes?"},
                user(""),
            ],
        )
    )

    assert [(turn["role"], turn["content"]) for turn in request.messages] == [
        ("system", "Be brief."),
        ("system", "In French."),
        ("system", "Now."),
        ("user", "a\nb"),
        ("assistant", "Yes?"),
        ("user", ""),
    ]


def test_an_answers_output_is_taken_back_as_it_was_given():
    output = a_reply()["output"]

    request = read_request(a_body(input=[user("a"), *output, user("b")]))

    assert request.messages[1] == {"role": "assistant", "content": "ab"}


@pytest.mark.parametrize(
    ("fields", "num_top"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"top_logprobs": 0}, None, id="no-top"),
        pytest.param({"include": [LOGPROBS]}, 0, id="own"),
        pytest.param({"include": [LOGPROBS, LOGPROBS], "top_logprobs": 20}, 20, id="top"),
    ],
)
def test_log_probabilities_are_included_where_they_are_named(fields, num_top):
    assert read_request(a_body(**fields)).logprobs == num_top


def test_log_probabilities_may_come_back_with_their_text():
    told = {"token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": []}
    part = {"type": "output_text", "text": "a", "annotations": [], "logprobs": [told]}
    turns = [user("a"), {"role": "assistant", "content": [part]}, user("b")]

    assert read_request(a_body(input=turns)).messages[1]["content"] == "a"


@pytest.mark.parametrize("name", IGNORED)
def test_what_cannot_change_the_text_is_ignored(name):
    assert read_request(a_body(**{name: {"some": "thing"}})) == read_request(a_body())


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"store": False}, id="not-stored"),
        pytest.param({"background": False}, id="not-in-the-background"),
        pytest.param({"include": ["reasoning.encrypted_content"]}, id="no-reasoning-to-include"),
        pytest.param({"reasoning": {"effort": "none", "summary": None}}, id="no-reasoning"),
        pytest.param({"text": {"format": {"type": "text"}}}, id="plain-text"),
        pytest.param({"text": {}}, id="no-format"),
        pytest.param({"tools": [], "tool_choice": "auto"}, id="no-tools"),
        pytest.param({"truncation": "disabled"}, id="no-truncation"),
        pytest.param({"prompt_cache_options": {"ttl": "12h", "prewarm": False}}, id="cache"),
        pytest.param({"previous_response_id": None}, id="null"),
        pytest.param(
            {"input": [user([{"type": "input_text", "text": "Hello",
                              "prompt_cache_breakpoint": {"mode": "explicit"}}])]},
            id="mark-of-the-prompt-cache",
        ),
    ],
)  # fmt: skip
def test_a_neutral_value_of_what_is_not_implemented_is_let_through(fields):
    assert replace(read_request(a_body(**fields)), repeated={}) == read_request(a_body())


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"input": None}, "input", id="no-input"),
        pytest.param({"input": []}, "input", id="empty-input"),
        pytest.param({"input": {}}, "input", id="input-object"),
        pytest.param({"input": ["a"]}, "input[0]", id="item-text"),
        pytest.param({"input": [{"type": "reasoning"}]}, "input[0].type", id="reasoning-item"),
        pytest.param(
            {"input": [user("a"), {"type": "function_call_output", "call_id": "c"}]},
            "input[1].output",
            id="result-without-output",
        ),
        pytest.param(
            {"input": [{"role": "tool", "content": "a"}]}, "input[0].role", id="unknown-role"
        ),
        pytest.param({"input": [user(None)]}, "input[0].content", id="content-null"),
        pytest.param(
            {"input": [user([{"type": "input_image", "image_url": "x"}])]},
            "input[0].content[0].type",
            id="image",
        ),
        pytest.param(
            {"input": [user([{"type": "output_text", "text": "a"}])]},
            "input[0].content[0].type",
            id="output-text-of-a-user",
        ),
        pytest.param(
            {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}]},
            "input[0].content[0].type",
            id="input-text-of-the-assistant",
        ),
        pytest.param({"input": [user("a", phase="commentary")]}, "input[0].phase", id="phase"),
        pytest.param({"model": None}, "model", id="no-model"),
        pytest.param({"max_output_tokens": 0}, "max_output_tokens", id="no-tokens"),
        pytest.param({"max_tokens": 5}, "max_tokens", id="chats-max-tokens"),
        pytest.param({"messages": [user("a")]}, "messages", id="chats-messages"),
        pytest.param({"temperature": 2.5}, "temperature", id="temperature-high"),
        pytest.param({"instructions": ["a"]}, "instructions", id="instructions-list"),
        pytest.param({"stream_options": {}}, "stream_options", id="options-without-stream"),
        pytest.param(
            {"stream": True, "stream_options": {"include_usage": True}},
            "stream_options.include_usage",
            id="chats-stream-option",
        ),
        pytest.param({"tools": [{"type": "web_search"}]}, "tools[0].type", id="tools"),
        pytest.param({"tool_choice": "required"}, "tool_choice", id="tool-choice"),
        pytest.param({"text": {"format": {"type": "xml"}}}, "text.format.type", id="format"),
        pytest.param({"text": {"verbosity": "low"}}, "text.verbosity", id="verbosity"),
        pytest.param({"reasoning": {"effort": "high"}}, "reasoning.effort", id="reasoning"),
        pytest.param({"previous_response_id": "r"}, "previous_response_id", id="previous"),
        pytest.param({"conversation": "c"}, "conversation", id="conversation"),
        pytest.param({"background": True}, "background", id="background"),
        pytest.param({"truncation": "auto"}, "truncation", id="truncation"),
        pytest.param({"store": True}, "store", id="store"),
        pytest.param({"include": ["file_search_call.results"]}, "include", id="include"),
        pytest.param({"include": [["a"]]}, "include", id="include-list"),
        pytest.param({"include": "message.output_text.logprobs"}, "include", id="include-text"),
        pytest.param({"top_logprobs": 2}, "top_logprobs", id="top-logprobs"),
        pytest.param(
            {"include": [LOGPROBS], "top_logprobs": 21}, "top_logprobs", id="top-logprobs-high"
        ),
        pytest.param({"prompt": {"id": "p"}}, "prompt", id="prompt"),
        pytest.param(
            {"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options.prewarm", id="warm"
        ),
        pytest.param({"seed": 4}, "seed", id="unknown-field"),
    ],
)
def test_a_wrong_field_is_named(fields, param):
    with pytest.raises(ApiError) as refused:
        read_request(a_body(**fields))

    assert refused.value.param == param
    assert refused.value.message.startswith(param)
    assert refused.value.status("openai") == 400


# What is written.


def test_events_come_in_the_order_of_the_api():
    stream = a_stream(Started(10, 4), TextDelta("a"), TextDelta("b"), Finished("stop", 2))

    assert [name for name, _ in stream] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [data["type"] for _, data in stream] == [name for name, _ in stream]
    assert [data["sequence_number"] for _, data in stream] == list(range(10))


def test_every_event_has_its_fields():
    head = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "ab", "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant"}
    told = [data for _, data in a_stream(Started(10, 4), TextDelta("ab"), Finished("stop", 2))]
    for data in told:
        del data["type"], data["sequence_number"]

    created, in_progress, added, part_added, delta, done, part_done, item_done, completed = told

    assert created == in_progress
    assert (created["response"]["status"], created["response"]["output"]) == ("in_progress", [])
    assert created["response"]["usage"] is None
    assert added == {"output_index": 0, "item": item | {"status": "in_progress", "content": []}}
    assert part_added == {**head, "part": part | {"text": ""}}
    assert delta == {**head, "delta": "ab", "logprobs": []}
    assert done == {**head, "text": "ab", "logprobs": []}
    assert part_done == {**head, "part": part}
    assert item_done["item"] == item | {"status": "completed", "content": [part]}
    assert completed["response"]["output"] == [item_done["item"]]
    assert completed["response"]["usage"] == USAGE


def test_a_whole_reply_is_what_the_stream_ends_with():
    fields = {"instructions": "Be brief.", "max_output_tokens": 7, "temperature": 0.5}
    *_, (_, last) = a_stream(Started(10, 4), TextDelta("ab"), Finished("stop", 2), **fields)

    reply = a_reply(**fields)

    assert reply == last["response"]
    assert (reply["id"], reply["object"], reply["created_at"]) == (
        "resp_1", "response", 1_700_000_000,
    )  # fmt: skip
    assert (reply["instructions"], reply["max_output_tokens"]) == ("Be brief.", 7)
    assert (reply["temperature"], reply["top_p"], reply["store"]) == (0.5, 1.0, False)


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        pytest.param("stop", "completed", None, id="end-of-turn"),
        pytest.param("length", "incomplete", {"reason": "max_output_tokens"}, id="max-tokens"),
        pytest.param("context", "incomplete", {"reason": "max_output_tokens"}, id="context"),
    ],
)
def test_both_forms_say_why_the_output_ended(reason, status, details):
    *_, (_, item_done), (name, last) = a_stream(Started(3, 0), Finished(reason, 1))
    whole = a_reply(Finished(reason, 1))

    assert name == f"response.{status}"
    assert item_done["item"]["status"] == status
    for response in (last["response"], whole):
        assert (response["status"], response["incomplete_details"]) == (status, details)
        assert response["output"][0]["status"] == status


def test_an_answer_without_text_is_an_empty_message():
    assert a_reply(text="")["output"][0]["content"][0]["text"] == ""


def test_an_error_in_the_stream_is_a_failed_response_with_what_had_come():
    *_, (_, before), (name, last) = a_stream(
        Started(3, 0), TextDelta("a"), ApiError("internal", "it broke")
    )

    response = last["response"]
    assert (name, response["status"]) == ("response.failed", "failed")
    assert last["sequence_number"] == before["sequence_number"] + 1
    assert response["error"] == {
        "message": "it broke", "type": "server_error", "param": None, "code": "server_error",
    }  # fmt: skip
    assert response["output"][0]["content"][0]["text"] == "a"
    assert (response["output"][0]["status"], response["usage"]) == ("incomplete", None)


def test_a_stream_that_fails_before_its_start_begins_all_the_same():
    stream = a_stream(ApiError("overloaded", "later"))

    assert [(name, data["sequence_number"]) for name, data in stream] == [
        ("response.created", 0),
        ("response.in_progress", 1),
        ("response.failed", 2),
    ]
    assert stream[-1][1]["response"]["error"]["code"] == "server_is_overloaded"
    assert stream[-1][1]["response"]["output"] == []
