from __future__ import annotations

import math

import pytest

from server_reference.api.chat import ChatRequest
from server_reference.api.errors import ApiError
from server_reference.api.events import Finished, Logprob, TextDelta
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


LOOK = Logprob(9, b"Look.", -0.25, (Logprob(9, b"Look.", -0.25), Logprob(8, b"\xc3", -math.inf)))
MARK, AGAIN = Logprob(7, b"<tool_call>", -1.0), Logprob(6, b"b", -2.0)
TOLD = {
    "token": "Look.",
    "logprob": -0.25,
    "top_logprobs": [
        {"token": "Look.", "logprob": -0.25},
        {"token": "\ufffd", "logprob": -9999.0},
    ],
}
SAID = [
    TextDelta("Look", 0, (LOOK,)),
    TextDelta(".", 0, (LOOK,)),
    *CALL,
    TextDelta("b", 0, (MARK, AGAIN), num_of_calls=1),
    Finished("tool_calls", 4),
]


def test_log_probabilities_are_told_in_both_forms():
    found = stream(*SAID)
    whole = as_reply(WIRE, STREAMED, STARTED, *SAID)

    deltas = [data["logprobs"] for name, data in found if name == "response.output_text.delta"]
    dones = [data["logprobs"] for name, data in found if name == "response.output_text.done"]
    assert deltas[:2] == [[TOLD], [TOLD]]
    assert dones[0] == [TOLD, TOLD]
    first, _, last = whole["output"]
    assert first["content"][0]["logprobs"][0] == TOLD | {
        "bytes": [*b"Look."],
        "top_logprobs": [
            {"token": "Look.", "bytes": [*b"Look."], "logprob": -0.25},
            {"token": "\ufffd", "bytes": [0xC3], "logprob": -9999.0},
        ],
    }
    assert [one["token"] for one in last["content"][0]["logprobs"]] == ["b"]
    assert found[-1][1]["response"]["output"] == whole["output"]
    done = [data["item"] for name, data in found if name == "response.output_item.done"]
    assert done == whole["output"]


def test_log_probabilities_of_a_call_alone_are_no_message():
    what = [*CALL, TextDelta("", 0, (MARK,), num_of_calls=1), Finished("tool_calls", 4)]

    found, whole = stream(*what), as_reply(WIRE, STREAMED, STARTED, *what)

    assert [item["type"] for item in whole["output"]] == ["function_call"]
    assert found[-1][1]["response"]["output"] == whole["output"]
    assert [data["sequence_number"] for _, data in found] == list(range(len(found)))


def test_tokens_without_text_are_told_with_an_empty_one():
    what = [TextDelta("", 0, (LOOK,)), Finished("stop", 1)]

    found, whole = stream(*what), as_reply(WIRE, STREAMED, STARTED, *what)

    (part,) = whole["output"][0]["content"]
    assert (part["text"], len(part["logprobs"])) == ("", 1)
    assert found[-1][1]["response"]["output"] == whole["output"]


@pytest.mark.sdk
def test_the_sdk_knows_all_that_is_told():
    """It would take fields that it does not know, but nobody could read them."""
    types = pytest.importorskip("openai.types.responses")
    event = pytest.importorskip("pydantic").TypeAdapter(types.ResponseStreamEvent)
    asked = ChatRequest(model="tiny", messages=[], max_tokens=9, logprobs=2)

    reply = as_reply(WIRE, asked, STARTED, *SAID)

    assert reply.pop("top_logprobs") == 2
    assert reply.pop("store") is False  # which the API has, and its SDK has not
    assert _unknown(types.Response.model_validate(reply)) == []
    told = [data for _, data in stream(*SAID) if "content_index" in data]
    assert len(told) == 9
    assert [name for data in told for name in _unknown(event.validate_python(data))] == []


def _unknown(value):
    """Names of fields, anywhere in `value`, that its types do not have."""
    if isinstance(value, list):
        return [name for one in value for name in _unknown(one)]
    if not hasattr(value, "model_extra"):
        return []
    inner = [getattr(value, name) for name in type(value).model_fields]
    return [*(value.model_extra or {}), *(name for one in inner for name in _unknown(one))]
