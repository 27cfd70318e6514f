from __future__ import annotations

import math

import pytest

from server_reference.api.chat import ChatRequest
from server_reference.api.events import (
    Finished,
    Logprob,
    Started,
    TextDelta,
)
from server_reference.api.openai_chat import OpenAIChat
from tests.server_reference.api.written import STARTED, a_call, as_reply, as_stream

WIRE = OpenAIChat(now=lambda: 1_700_000_000.5)


def a_request(**fields):
    return ChatRequest(model="tiny", messages=[], max_tokens=9, stream=True, **fields)


def deltas(request, *what):
    """The choices' deltas after the roles, and why they ended."""
    chunks = [data for _, data in as_stream(WIRE, request, STARTED, *what)][request.n : -1]
    return [
        (one["index"], one["finish_reason"] or one["delta"])
        for chunk in chunks
        for one in chunk["choices"]
    ]


def test_calls_are_numbered_and_only_their_first_delta_names_them():
    found = deltas(
        a_request(), TextDelta("Look."), *a_call("1"), *a_call("2"), Finished("tool_calls", 7)
    )

    head = {"type": "function", "function": {"name": "at", "arguments": ""}}
    first, second = (
        [
            {"tool_calls": [{"index": at, "id": f"call_{at + 1}", **head}]},
            {"tool_calls": [{"index": at, "function": {"arguments": '{"city"'}}]},
            {"tool_calls": [{"index": at, "function": {"arguments": ': "Rome"}'}}]},
        ]
        for at in (0, 1)
    )
    assert [delta for _, delta in found] == [{"content": "Look."}, *first, *second, "tool_calls"]


@pytest.mark.parametrize(
    ("what", "content"),
    [
        pytest.param(a_call(), None, id="call-only"),
        pytest.param([TextDelta("Look."), *a_call(), TextDelta(" Ok")], "Look. Ok", id="with-text"),
    ],
)
def test_a_whole_completion_holds_the_same(what, content):
    reply = as_reply(WIRE, a_request(), STARTED, *what, Finished("tool_calls", 7))

    (choice,) = reply["choices"]
    function = {"name": "at", "arguments": '{"city": "Rome"}'}
    assert choice["message"]["content"] == content
    assert choice["message"]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": function}
    ]
    assert choice["finish_reason"] == "tool_calls"


def test_a_cut_call_holds_what_came():
    reply = as_reply(WIRE, a_request(), STARTED, *a_call()[:2], Finished("length", 7))

    (choice,) = reply["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city"'
    assert choice["finish_reason"] == "length"


TWO = [
    TextDelta("a", 0),
    TextDelta("b", 1),
    *a_call("1", 1),
    TextDelta("c", 0),
    Finished("tool_calls", 5, index=1),
    Finished("length", 2, index=0),
]


def test_choices_are_told_apart_and_each_ends_for_its_own_reason():
    found = deltas(a_request(n=2), *TWO)

    assert [delta for index, delta in found if index == 0] == [
        {"content": "a"},
        {"content": "c"},
        "length",
    ]
    assert [delta for index, delta in found if index == 1][-1] == "tool_calls"


def test_every_choice_has_its_role_and_the_counts_come_once():
    stream = as_stream(WIRE, a_request(n=2, include_usage=True), STARTED, *TWO)

    chunks = [data for _, data in stream]
    assert [one["choices"][0]["index"] for one in chunks[:2]] == [0, 1]
    assert [one["choices"][0]["delta"]["role"] for one in chunks[:2]] == ["assistant"] * 2
    *others, counted, done = chunks
    assert done == "[DONE]"
    assert (counted["choices"], counted["usage"]["completion_tokens"]) == ([], 7)
    assert counted["usage"]["prompt_tokens"] == 10
    assert {one["usage"] for one in others} == {None}


def test_whole_choices_are_in_order_and_counted_together():
    reply = as_reply(WIRE, a_request(n=2), STARTED, *TWO)

    assert [choice["index"] for choice in reply["choices"]] == [0, 1]
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["ac", "b"]
    assert reply["usage"]["total_tokens"] == 17


KNOWN = Logprob(0xC3, b"\xc3", -0.25, (Logprob(65, b"A", -0.5), Logprob(66, b"B", -math.inf)))
TOLD = {
    "token": "\ufffd",
    "bytes": [0xC3],
    "logprob": -0.25,
    "top_logprobs": [
        {"token": "A", "bytes": [65], "logprob": -0.5},
        {"token": "B", "bytes": [66], "logprob": -9999.0},
    ],
}


def test_log_probabilities_are_told_in_both_forms():
    request = a_request(logprobs=2)
    what = [TextDelta("é", 0, (KNOWN,)), TextDelta("", 0, (KNOWN,)), Finished("stop", 2)]

    stream = [data for _, data in as_stream(WIRE, request, STARTED, *what)]
    (choice,) = as_reply(WIRE, request, STARTED, *what)["choices"]

    assert [one["choices"][0]["logprobs"] for one in stream[1:3]] == [
        {"content": [TOLD], "refusal": None}
    ] * 2
    assert choice["logprobs"] == {"content": [TOLD, TOLD], "refusal": None}
    assert choice["message"]["content"] == "é"


def test_log_probabilities_of_the_prompt_are_told_by_token():
    request = a_request(prompt_logprobs=1)

    reply = as_reply(WIRE, request, Started(2, 0, (KNOWN,)), Finished("stop", 0))

    nothing, first = reply["prompt_logprobs"]
    assert nothing is None
    assert first["195"] == {"logprob": -0.25, "decoded_token": "\ufffd"}
    assert list(first) == ["195", "65", "66"]
