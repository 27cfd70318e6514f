from __future__ import annotations

import json

import pytest

from server_reference.api.errors import ApiError
from server_reference.api.events import Finished, Started, TextDelta
from server_reference.api.openai_chat import IGNORED, OpenAIChat, read_request
from tests.server_reference.api.written import as_reply, as_stream

WIRE = OpenAIChat(now=lambda: 1_700_000_000.5)


def a_body(**fields):
    ordinary = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
    return json.dumps(ordinary | fields).encode()


def a_stream(*what, **fields):
    """What a writer makes of an event stream."""
    return [data for _, data in as_stream(WIRE, read_request(a_body(stream=True, **fields)), *what)]


def test_an_ordinary_request_is_read():
    request = read_request(
        a_body(
            messages=[
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                {"role": "assistant", "content": "Yes?", "refusal": None, "tool_calls": None},
                {"role": "user", "content": ""},
            ],
            max_completion_tokens=9,
            temperature=2,
            seed=-3,
            stop="END",
        )
    )

    assert [message["role"] for message in request.messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert (request.max_tokens, request.temperature, request.seed) == (9, 2.0, -3)
    assert request.stop == ("END",)


def test_without_max_tokens_the_context_is_the_limit():
    assert read_request(a_body()).max_tokens is None


@pytest.mark.parametrize("name", IGNORED)
def test_what_cannot_change_the_text_is_ignored(name):
    assert read_request(a_body(**{name: {"some": "thing"}})) == read_request(a_body())


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"n": 1}, id="one-choice"),
        pytest.param({"frequency_penalty": 0}, id="no-penalty"),
        pytest.param({"presence_penalty": 0.0}, id="no-penalty-fraction"),
        pytest.param({"logprobs": False}, id="no-logprobs"),
        pytest.param({"response_format": {"type": "text"}}, id="plain-text"),
        pytest.param({"tools": []}, id="no-tools"),
        pytest.param({"logit_bias": {}}, id="no-bias"),
        pytest.param({"tool_choice": None}, id="null"),
    ],
)
def test_a_neutral_value_of_what_is_not_implemented_is_let_through(fields):
    assert read_request(a_body(**fields)) == read_request(a_body())


def user(content, **more):
    return {"role": "user", "content": content, **more}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"messages": []}, "messages", id="no-messages"),
        pytest.param({"messages": {}}, "messages", id="messages-object"),
        pytest.param({"messages": [[]]}, "messages[0]", id="message-array"),
        pytest.param(
            {"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", id="unknown-role"
        ),
        pytest.param(
            {"messages": [user("a"), {"role": "tool", "content": "x"}]},
            "messages[1].tool_call_id",
            id="result-of-nothing",
        ),
        pytest.param({"messages": [user(None)]}, "messages[0].content", id="content-null"),
        pytest.param(
            {"messages": [user([{"type": "image_url", "image_url": {}}])]},
            "messages[0].content[0].type",
            id="image",
        ),
        pytest.param({"messages": [user("a", name="Ann")]}, "messages[0].name", id="name"),
        pytest.param(
            {"messages": [user("a"), {"role": "assistant", "content": "", "tool_calls": [{}]}]},
            "messages[1].tool_calls[0].type",
            id="call-without-type",
        ),
        pytest.param({"model": []}, "model", id="model-array"),
        pytest.param({"max_tokens": 0}, "max_tokens", id="max-tokens-zero"),
        pytest.param({"max_completion_tokens": 0}, "max_completion_tokens", id="completion-zero"),
        pytest.param({"max_tokens": -5}, "max_tokens", id="max-tokens-negative"),
        pytest.param(
            {"max_tokens": 3, "max_completion_tokens": 3}, "max_tokens", id="both-max-tokens"
        ),
        pytest.param({"temperature": 2.5}, "temperature", id="temperature-high"),
        pytest.param({"seed": 2**63}, "seed", id="seed-huge"),
        pytest.param({"seed": 1.5}, "seed", id="seed-fraction"),
        pytest.param({"stop": ""}, "stop", id="stop-empty"),
        pytest.param({"stop": [None]}, "stop", id="stop-null"),
        pytest.param({"stop": 3}, "stop", id="stop-number"),
        pytest.param(
            {"stream_options": {"include_usage": True}}, "stream_options", id="options-no-stream"
        ),
        pytest.param(
            {"stream": True, "stream_options": {"include_usge": True}},
            "stream_options.include_usge",
            id="options-unknown",
        ),
        pytest.param({"n": 0}, "n", id="no-choices"),
        pytest.param({"n": 129}, "n", id="many-choices"),
        pytest.param({"n": True}, "n", id="choices-boolean"),
        pytest.param({"logprobs": 1}, "logprobs", id="logprobs-number"),
        pytest.param({"top_logprobs": 3}, "top_logprobs", id="top-logprobs"),
        pytest.param(
            {"tools": [{"type": "function"}]}, "tools[0].function", id="tool-without-function"
        ),
        pytest.param({"tool_choice": "required"}, "tool_choice", id="no-tool-to-choose"),
        pytest.param({"response_format": {"type": "xml"}}, "response_format.type", id="format"),
        pytest.param(
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
            "response_format.json_schema.schema",
            id="format-without-schema",
        ),
        pytest.param({"logit_bias": {"1": 101}}, "logit_bias.1", id="bias-high"),
        pytest.param({"logit_bias": {"-1": 5}}, "logit_bias", id="bias-of-no-token"),
        pytest.param({"logit_bias": {"٣": 5}}, "logit_bias", id="bias-in-other-digits"),
        pytest.param({"logit_bias": {"1" * 5000: 5}}, "logit_bias", id="bias-of-a-long-number"),
        pytest.param({"frequency_penalty": 2.1}, "frequency_penalty", id="frequency"),
        pytest.param({"presence_penalty": -3}, "presence_penalty", id="presence"),
        pytest.param({"repetition_penalty": 0}, "repetition_penalty", id="repetition"),
        pytest.param({"min_tokens": 9, "max_tokens": 8}, "min_tokens", id="min-above-max"),
        pytest.param({"stop_token_ids": [True]}, "stop_token_ids", id="stop-ids-boolean"),
        pytest.param({"stop_token_ids": [-1]}, "stop_token_ids", id="stop-ids-negative"),
        pytest.param(
            {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs", id="prompt-logprobs-stream"
        ),
        pytest.param({"reasoning_effort": "high"}, "reasoning_effort", id="reasoning"),
        pytest.param({"top_n": 4}, "top_n", id="unknown-field"),
    ],
)
def test_a_wrong_field_is_named(fields, param):
    with pytest.raises(ApiError) as refused:
        read_request(a_body(**fields))

    assert refused.value.param == param
    assert refused.value.message.startswith(param)
    assert refused.value.status("openai") == 400


def test_chunks_come_in_the_order_of_the_api():
    role, first, second, last, done = a_stream(
        Started(10, 4), TextDelta("a"), TextDelta("b"), Finished("length", 2)
    )

    assert role["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert first["choices"][0]["delta"] == {"content": "a"}
    assert second["choices"][0]["finish_reason"] is None
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "length")
    assert done == "[DONE]"


def test_every_chunk_names_the_completion():
    *chunks, _ = a_stream(Started(10, 4), TextDelta("a"), Finished("stop", 1))

    heads = {(c["id"], c["object"], c["created"], c["model"]) for c in chunks}
    assert heads == {("chatcmpl-1", "chat.completion.chunk", 1_700_000_000, "tiny")}


def test_counts_come_only_when_asked_for_in_a_chunk_without_choices():
    events = [Started(10, 4), TextDelta("a"), Finished("stop", 2)]
    asked = a_stream(*events, stream_options={"include_usage": True})
    unasked = a_stream(*events)

    assert asked[-2]["choices"] == []
    assert asked[-2]["usage"]["prompt_tokens"] == 10
    assert asked[-2]["usage"]["prompt_tokens_details"]["cached_tokens"] == 4
    assert asked[-2]["usage"]["total_tokens"] == 12
    assert [chunk["usage"] for chunk in asked[:-2]] == [None] * 3
    assert not any("usage" in chunk for chunk in unasked[:-1])


@pytest.mark.parametrize(
    ("finished", "reason"),
    [
        pytest.param(Finished("stop", 1), "stop", id="end-of-turn"),
        pytest.param(Finished("stop_sequence", 1, "END"), "stop", id="stop-string"),
        pytest.param(Finished("length", 1), "length", id="max-tokens"),
        pytest.param(Finished("context", 1), "length", id="context"),
    ],
)
def test_both_forms_say_why_the_output_ended(finished, reason):
    *_, last, _done = a_stream(Started(3, 0), finished)
    whole = as_reply(WIRE, read_request(a_body()), Started(3, 0), finished)

    assert last["choices"][0]["finish_reason"] == reason
    assert whole["choices"][0]["finish_reason"] == reason


def test_an_error_in_the_stream_is_its_last_event():
    *_, last = a_stream(Started(3, 0), TextDelta("a"), ApiError("internal", "it broke"))

    assert last["error"]["message"] == "it broke"
    assert last["error"]["type"] == "server_error"


def test_a_whole_reply_holds_what_the_stream_would():
    what = [Started(10, 4), TextDelta("a"), TextDelta("b"), Finished("stop", 2)]

    reply = as_reply(WIRE, read_request(a_body()), *what)

    assert (reply["id"], reply["object"]) == ("chatcmpl-1", "chat.completion")
    assert reply["choices"][0]["message"] == {
        "role": "assistant",
        "content": "ab",
        "refusal": None,
    }
    assert reply["usage"]["prompt_tokens"] == 10
    assert reply["usage"]["completion_tokens"] == 2
