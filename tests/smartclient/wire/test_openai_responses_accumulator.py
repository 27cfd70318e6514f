"""A response from its events, whole or cut."""

from __future__ import annotations

from typing import Any

import pytest

from smartclient.wire.encode import encode
from smartclient.wire.openai_responses import OpenAIResponses
from smartclient.wire.sse import Event


def accumulated(*events: tuple[str, dict[str, Any]]) -> Any:
    adapter = OpenAIResponses()
    accumulator = adapter.accumulator()
    for kind, fields in events:
        data = encode({"type": kind, **fields}).decode()
        accumulator.add(adapter.part(Event(kind, data)).value)
    return accumulator.result()


def output(*events: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [item.to_dict() for item in accumulated(*events).output]


CREATED = ("response.created", {"response": {"id": "r", "status": "in_progress", "output": []}})
ADDED = (
    "response.output_item.added",
    {"output_index": 0, "item": {"id": "m", "type": "message", "content": []}},
)
PART = (
    "response.content_part.added",
    {"output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": ""}},
)
DONE = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": "Paris"}]}


def text(piece: Any, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "response.output_text.delta", {"output_index": 0, "content_index": 0, "delta": piece} | (
        fields
    )


def test_the_last_event_is_the_response():
    end = {"id": "r", "status": "completed", "output": [DONE]}

    response = accumulated(
        CREATED, ADDED, PART, text("Par"), ("response.completed", {"response": end})
    )

    assert response.raw == encode(end)
    assert response.output_text == "Paris"


def test_a_cut_stream_has_what_came():
    response = accumulated(CREATED, ADDED, PART, text("Pa"), text("ri"))

    assert (response.id, response.status, response.output_text) == ("r", "in_progress", "Pari")


def test_a_last_event_with_an_empty_output_loses_nothing():
    """vLLM sent such ones (vllm#30223)."""
    end = {"id": "r", "status": "completed", "output": [], "usage": {"output_tokens": 2}}

    response = accumulated(
        CREATED, ADDED, PART, text("Paris"), ("response.completed", {"response": end})
    )

    assert (response.status, response.output_text) == ("completed", "Paris")
    assert response.usage.output_tokens == 2


def test_an_item_that_is_done_replaces_its_pieces():
    done = ("response.output_item.done", {"output_index": 0, "item": DONE})

    response = accumulated(CREATED, ADDED, PART, text("Pax"), done)

    assert response.output[0].raw == encode(DONE)


def test_an_item_that_is_done_goes_back_byte_for_byte():
    raw = '{"type": "message","id":"m", "content":[ {"type":"output_text","text":"\\u00e9"} ]}'
    adapter = OpenAIResponses()
    accumulator = adapter.accumulator()

    for kind, item in (("added", '{"type": "message"}'), ("done", raw)):
        data = f'{{"type":"response.output_item.{kind}","output_index":0,"item":{item}}}'
        accumulator.add(adapter.part(Event("message", data)).value)

    assert accumulator.result().output[0].raw == raw.encode()


def test_a_part_that_is_done_replaces_its_pieces():
    part = {"type": "output_text", "text": "Paris", "annotations": [1]}
    done = ("response.content_part.done", {"output_index": 0, "content_index": 0, "part": part})

    assert output(ADDED, PART, text("Pax"), done)[0]["content"] == [part]


@pytest.mark.parametrize(
    ("kind", "field", "expected"),
    [
        pytest.param(
            "response.refusal.delta",
            "content_index",
            {"type": "message", "content": [{"type": "refusal", "refusal": "ab"}]},
            id="refusal",
        ),
        pytest.param(
            "response.reasoning_text.delta",
            "content_index",
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "ab"}]},
            id="reasoning",
        ),
        pytest.param(
            "response.reasoning_summary_text.delta",
            "summary_index",
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "ab"}]},
            id="summary",
        ),
        pytest.param(
            "response.function_call_arguments.delta",
            "x",
            {"type": "function_call", "arguments": "ab"},
            id="arguments",
        ),
        pytest.param(
            "response.custom_tool_call_input.delta",
            "x",
            {"type": "custom_tool_call", "input": "ab"},
            id="input",
        ),
    ],
)
def test_a_delta_before_its_start_is_kept(kind, field, expected):
    pieces = [(kind, {"output_index": 0, field: 0, "delta": piece}) for piece in ("a", None, "b")]

    assert output(*pieces) == [expected]


def test_a_call_of_a_tool_comes_in_pieces():
    """Cut inside a number, its arguments stay text: any value could still change."""
    start = {"id": "f", "type": "function_call", "call_id": "c", "name": "f", "arguments": ""}
    kind = "response.function_call_arguments.delta"

    [call] = output(
        ("response.output_item.added", {"output_index": 0, "item": start}),
        (kind, {"output_index": 0, "delta": '{"x":'}),
        (kind, {"output_index": 0, "delta": "1"}),
    )

    assert call == start | {"arguments": '{"x":1'}


def test_items_and_parts_are_kept_apart_and_in_their_order():
    items = output(
        text("c", output_index=1),
        text("b", content_index=1),
        text("a"),
        text("B", content_index=1),
    )

    assert [[part["text"] for part in item["content"]] for item in items] == [["a", "bB"], ["c"]]


def test_annotations_are_gathered():
    kind = "response.output_text.annotation.added"
    place = {"output_index": 0, "content_index": 0}

    [item] = output(
        ADDED, PART, text("a"), (kind, place | {"annotation": {"n": 1}}),
        (kind, place | {"annotation": {"n": 2}}),
    )  # fmt: skip

    assert item["content"][0]["annotations"] == [{"n": 1}, {"n": 2}]


def test_a_summary_has_its_parts():
    part = {"type": "summary_text", "text": "hm"}
    added = {"output_index": 0, "summary_index": 0, "part": part}

    [item] = output(("response.reasoning_summary_part.added", added))

    assert item == {"type": "reasoning", "summary": [part]}


def test_what_is_unknown_is_passed_over():
    assert accumulated(("response.brand_new", {"x": 1})) is None
    assert accumulated(CREATED, ("response.brand_new", {"x": 1})).id == "r"
