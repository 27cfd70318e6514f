"""A message from its events, in whatever state the stream left it."""

from __future__ import annotations

from typing import Any

import pytest

from smartclient.wire.anthropic_messages import AnthropicMessages
from smartclient.wire.encode import encode
from smartclient.wire.sse import Event

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1},
    },
}


def accumulated(*events: dict[str, Any]) -> Any:
    adapter = AnthropicMessages()
    accumulator = adapter.accumulator()
    for event in events:
        accumulator.add(adapter.part(Event("message", encode(event).decode())).value)
    return accumulator.result()


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int | None, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def text(index: int, value: str) -> dict[str, Any]:
    return piece(index, type="text_delta", text=value)


def test_a_whole_stream_is_the_message():
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 15},
    }

    message = accumulated(
        START, begin(0, type="text", text=""), text(0, "Hel"), text(0, "lo"), stop(0), end,
        {"type": "message_stop"},
    )  # fmt: skip

    assert message.raw == (
        b'{"id":"msg_1","type":"message","role":"assistant","model":"m",'
        b'"content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,'
        b'"usage":{"input_tokens":9,"cache_read_input_tokens":4,"output_tokens":15}}'
    )
    assert message.content[0].text == "Hello"
    assert message.usage.output_tokens == 15


def test_thinking_keeps_its_signature():
    message = accumulated(
        START,
        begin(0, type="thinking", thinking="", signature=""),
        piece(0, type="thinking_delta", thinking="a"),
        piece(0, type="thinking_delta", thinking="b"),
        piece(0, type="signature_delta", signature="c2ln"),
        stop(0),
    )

    assert message.content[0].to_dict() == {
        "type": "thinking", "thinking": "ab", "signature": "c2ln",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "value"),
    [
        pytest.param(['{"city": "Par', 'is"}'], {"city": "Paris"}, id="joined"),
        pytest.param([], {}, id="no-input"),
        pytest.param(['{"city": '], '{"city": ', id="invalid-json-stays-text"),
    ],
)
def test_a_tools_input_is_parsed_when_its_block_stops(pieces, value):
    message = accumulated(
        START,
        begin(0, type="tool_use", id="t", name="f", input={}),
        *(piece(0, type="input_json_delta", partial_json=each) for each in pieces),
        stop(0),
    )

    assert message.content[0].input == value


def test_an_input_that_was_cut_is_no_value_yet():
    """`1` may still become `12`."""
    message = accumulated(
        START,
        begin(0, type="tool_use", id="t", name="f", input={}),
        piece(0, type="input_json_delta", partial_json="1"),
    )

    assert message.content[0].input == "1"


def test_citations_are_collected():
    message = accumulated(
        START,
        begin(0, type="text", text="", citations=None),
        piece(0, type="citations_delta", citation={"n": 1}),
        piece(0, type="citations_delta", citation={"n": 2}),
    )

    assert message.content[0].citations == [{"n": 1}, {"n": 2}]


def test_blocks_may_interleave():
    message = accumulated(
        START, begin(0, type="text", text=""), begin(1, type="text", text=""),
        text(1, "b"), text(0, "a"), text(1, "B"),
    )  # fmt: skip

    assert [block.text for block in message.content] == ["a", "bB"]


def test_a_delta_without_its_start_opens_a_block():
    message = accumulated(START, piece(3, type="thinking_delta", thinking="hm"), text(4, "a"))

    assert [block.to_dict() for block in message.content] == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "a"},
    ]


def test_a_start_after_its_deltas_takes_them_over():
    message = accumulated(
        START,
        piece(0, type="input_json_delta", partial_json='{"a":1}'),
        begin(0, type="tool_use", id="t", name="f", input={}),
        stop(0),
    )

    [block] = message.content
    assert (block.name, block.input) == ("f", {"a": 1})


def test_unknown_blocks_events_and_deltas_are_kept_or_passed_over():
    message = accumulated(
        START,
        begin(0, type="hologram", depth={"z": 1}),
        piece(0, type="brand_new_delta", new=1),
        {"type": "brand_new"},
        {"type": "content_block_stop", "index": 77},
        {"type": "message_delta", "delta": {"container": {"id": "c"}}, "usage": {"new_tokens": 2}},
    )

    assert message.content[0].to_dict() == {"type": "hologram", "depth": {"z": 1}}
    assert message.container == {"id": "c"}
    assert message.to_dict()["usage"]["new_tokens"] == 2


def test_null_counts_leave_those_of_the_start():
    message = accumulated(
        START, {"type": "message_delta", "usage": {"input_tokens": None, "output_tokens": 3}}
    )

    assert (message.usage.input_tokens, message.usage.output_tokens) == (9, 3)


def test_a_cut_stream_is_what_has_come():
    message = accumulated(START, begin(0, type="text", text=""), text(0, "Hel"))

    assert (message.content[0].text, message.stop_reason) == ("Hel", None)


def test_content_that_the_start_brings_is_kept():
    start = {"type": "message_start", "message": {"content": [{"type": "text", "text": "a"}, 5]}}

    message = accumulated(start, begin(0, type="text", text=""), text(0, "b"))

    assert [block.text for block in message.content] == ["a", "b"]


def test_fields_beside_the_delta_are_kept():
    message = accumulated(START, {"type": "message_delta", "context_management": {"n": 1}})

    assert message.context_management == {"n": 1}


def test_what_is_no_event_is_passed_over():
    accumulator = AnthropicMessages().accumulator()

    accumulator.add(None)

    assert accumulator.result() is None


def test_before_anything_has_come_there_is_nothing():
    assert accumulated() is None


def test_a_result_may_be_asked_for_again_and_again():
    adapter = AnthropicMessages()
    accumulator = adapter.accumulator()
    for event in (START, begin(0, type="text", text=""), text(0, "a")):
        accumulator.add(adapter.part(Event("message", encode(event).decode())).value)

    first = accumulator.result()
    accumulator.add(adapter.part(Event("message", encode(text(0, "b")).decode())).value)

    assert first is not None
    assert first.content[0].text == "a"
    assert accumulator.result().content[0].text == "ab"


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [{"type": "message_start", "message": {"content": "x", "usage": 3}}], id="start"
        ),
        pytest.param([START, piece(None, type="text_delta", text=5)], id="number-as-text"),
        pytest.param(
            [START, begin(0, type="text", text=7), text(0, "a")], id="number-in-the-start"
        ),
        pytest.param(
            [{"type": "message_delta", "usage": {"output_tokens": 1}}, text(0, "a")], id="no-start"
        ),
    ],
)
def test_odd_shapes_never_raise(events):
    assert accumulated(*events) is not None


def test_halves_of_an_emoji_in_two_deltas_are_joined():
    adapter = AnthropicMessages()
    accumulator = adapter.accumulator()
    for half in ("\\ud83d", "\\ude00"):
        source = f'{{"type":"content_block_delta","index":0,"delta":{{"text":"{half}"}}}}'
        accumulator.add(adapter.part(Event("message", source)).value)

    message = accumulator.result()

    assert message is not None
    assert message.content[0].text == "😀"


def test_accumulated_blocks_go_back_as_they_were_joined():
    message = accumulated(START, begin(0, type="text", text=""), text(0, "é"), stop(0))

    assert encode(message.content) == '[{"type":"text","text":"é"}]'.encode()
