"""The Messages format as it is documented, and as proxies bend it."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest

from smartclient.wire import Delta, Part, Usage
from smartclient.wire.anthropic_messages import AnthropicMessages
from smartclient.wire.encode import encode
from smartclient.wire.sse import Event

ADAPTER = AnthropicMessages()


def part(event: str = "message", /, **payload: Any) -> Part:
    return ADAPTER.part(Event(event, encode(payload).decode()))


def delta(**fields: Any) -> Delta:
    return part("content_block_delta", type="content_block_delta", index=0, delta=fields).delta


@pytest.mark.parametrize(
    ("fields", "has_tokens"),
    [
        pytest.param({"type": "text_delta", "text": "a"}, True, id="text"),
        pytest.param({"type": "text_delta", "text": ""}, False, id="no-text"),
        pytest.param({"type": "thinking_delta", "thinking": "a"}, True, id="thinking"),
        pytest.param({"type": "input_json_delta", "partial_json": "{"}, True, id="tool-input"),
        pytest.param({"type": "input_json_delta", "partial_json": ""}, False, id="no-tool-input"),
        pytest.param(
            {"type": "input_json_delta", "partial_json": None}, False, id="null-tool-input"
        ),
        pytest.param({"type": "signature_delta", "signature": "s"}, False, id="signature"),
        pytest.param({"type": "citations_delta", "citation": {}}, False, id="citation"),
        pytest.param({"type": "brand_new_delta", "new": 1}, False, id="unknown"),
    ],
)
def test_tokens_are_what_the_model_wrote(fields, has_tokens):
    assert delta(**fields) == Delta(has_tokens=has_tokens)


def test_an_event_is_read_by_attribute():
    value = part(
        type="content_block_delta", index=2, delta={"type": "text_delta", "text": "hi"}
    ).value

    assert (value.type, value.index, value.delta.type, value.delta.text) == (
        "content_block_delta", 2, "text_delta", "hi",
    )  # fmt: skip
    assert (value.message, value.content_block, value.usage) == (None, None, None)


def test_the_text_of_any_event_can_be_asked_for():
    assert part(type="message_stop").value.delta.text is None


def test_message_start_tells_the_input():
    told = part(
        type="message_start",
        message={"id": "msg_1", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}},
    )

    assert told.value.message.id == "msg_1"
    assert told.value.message.usage.input_tokens == 3
    usage = Usage(uncached=3, cache_read=0, cache_write={}, output=1, is_final=False)
    assert told.delta == Delta(usage=usage, reply_id="msg_1")


def test_message_delta_tells_the_output_and_the_end():
    told = part(
        type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 15}
    )

    assert told.value.usage.output_tokens == 15
    assert told.delta == Delta(usage=Usage(output=15), finish="end_turn")


def test_message_stop_is_terminal():
    assert part(type="message_stop").delta == Delta(is_terminal=True)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(Event("ping", '{"type":"ping"}'), id="ping"),
        pytest.param(Event("ping", ""), id="ping-without-json"),
        pytest.param(Event("message", "[DONE]"), id="another-formats-end"),
        pytest.param(Event("message", "null"), id="null"),
    ],
)
def test_what_is_no_content_is_silent(event):
    assert ADAPTER.part(event) == Part(None, Delta())


def test_an_unknown_event_is_passed_on():
    told = part("brand_new", type="brand_new", news={"a": 1}, index=4)

    assert told.delta == Delta()
    assert told.value.index == 4
    assert told.value.to_dict()["news"] == {"a": 1}


def test_the_event_name_stands_in_for_a_missing_type():
    assert part("message_stop").delta.is_terminal


def test_text_in_a_block_start_counts():
    assert part(
        type="content_block_start", index=0, content_block={"type": "text", "text": "a"}
    ).delta.has_tokens
    assert not part(
        type="content_block_start", index=0, content_block={"type": "text", "text": ""}
    ).delta.has_tokens


@pytest.mark.parametrize(
    ("event", "kind", "type_"),
    [
        pytest.param(
            Event(
                "error",
                '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
            ),
            "overloaded",
            "overloaded_error",
            id="documented",
        ),
        pytest.param(
            Event("message", '{"type":"error","error":{"type":"rate_limit_error"}}'),
            "rate_limited",
            "rate_limit_error",
            id="unnamed",
        ),
        pytest.param(
            Event("error", '{"type":"invalid_request_error","message":"flat"}'),
            "invalid",
            "invalid_request_error",
            id="without-envelope",
        ),
        pytest.param(Event("error", "upstream broke"), "server", None, id="text"),
        pytest.param(
            Event(
                "content_block_delta",
                '{"type":"content_block_delta","delta":{"text":"a"},"error":{"type":"api_error"}}',
            ),
            "server",
            "api_error",
            id="beside-content",
        ),
    ],
)
def test_an_error_event_is_a_failure(event, kind, type_):
    told = ADAPTER.part(event)

    assert told.value is None
    assert told.delta.failure is not None
    assert (told.delta.failure.kind, told.delta.failure.type) == (kind, type_)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param('{"type":"content_block_delta","del', id="cut"),
        pytest.param("hello", id="text"),
        pytest.param("[1]", id="list"),
        pytest.param('{"delta":7}', id="number-in-place-of-an-object"),
        pytest.param(
            '{"type":"content_block_start","content_block":"x"}', id="text-in-place-of-a-block"
        ),
        pytest.param('{"x":' + "[" * 100_000, id="absurd-depth"),
    ],
)
def test_malformed_data_is_a_failure_not_an_exception(data):
    told = ADAPTER.part(Event("message", data))

    assert told.value is None
    assert told.delta.failure is not None
    assert told.delta.failure.kind == "malformed"


def test_nulls_are_missing_fields():
    told = part(type="content_block_delta", index=None, delta=None, usage=None, message=None)

    assert told.delta == Delta()
    assert told.value.delta.text is None


def test_half_a_surrogate_pair_does_not_end_the_stream():
    told = ADAPTER.part(Event("", '{"type":"content_block_delta","delta":{"text":"\\ud83d"}}'))

    assert told.value.delta.text == "\ud83d"
    assert told.delta.has_tokens


def test_an_event_keeps_its_source():
    source = '{"type": "content_block_delta", "delta": {"text": "é"}, "new": 1.0}'

    value = ADAPTER.part(Event("", source)).value

    assert value.raw == source.encode()
    assert value.to_dict()["new"] == 1.0
    assert pickle.loads(pickle.dumps(value)) == value
    assert repr(value) == (
        "MessageStreamEvent(type='content_block_delta', delta=EventDelta(text='é'))"
    )


def test_a_whole_reply_tells_its_end():
    body = encode({"content": [{"type": "text", "text": "a"}], "stop_reason": "max_tokens"})

    assert ADAPTER.whole(body).delta == Delta(
        has_tokens=True, is_terminal=True, finish="max_tokens"
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{"])
def test_a_whole_reply_that_is_no_json_is_a_failure(body):
    failure = ADAPTER.whole(body).delta.failure

    assert failure is not None
    assert failure.kind == "malformed"
    with pytest.raises(msgspec.DecodeError):
        ADAPTER.value(body)


def test_an_error_in_a_reply_that_claims_success_is_a_failure():
    failure = ADAPTER.whole(b'{"error":{"type":"overloaded_error","message":"x"}}').delta.failure

    assert failure is not None
    assert failure.kind == "overloaded"


def test_a_reply_is_read_by_attribute():
    message = ADAPTER.value(
        b'{"id":"msg_1","role":"assistant","content":[{"type":"text","text":"hi","citations":null},'
        b'{"type":"tool_use","id":"t","name":"f","input":{"a":1}},{"type":"hologram","depth":3}],'
        b'"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3}}'
    )

    text, call, unknown = message.content
    assert (text.type, text.text, text.citations) == ("text", "hi", None)
    assert (call.name, call.input) == ("f", {"a": 1})
    assert (unknown.type, unknown.to_dict()) == ("hologram", {"type": "hologram", "depth": 3})
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert message.usage.input_tokens == 3


def test_an_empty_reply_has_no_content_and_unknown_counts():
    message = ADAPTER.value(b"{}")

    assert list(message.content) == []
    assert message.usage.input_tokens is None


def test_content_sent_back_is_byte_for_byte_what_came():
    """Any other byte would miss the prompt cache from there on."""
    thinking = b'{"type": "thinking","thinking":"\\u00e9","signature":"s=="}'
    unknown = b'{"new":[1.0,1e2],"text":null}'
    source = b'{"role":"assistant","content":[ ' + thinking + b", " + unknown + b"]}"
    message = ADAPTER.value(source)

    body = encode({"messages": [{"role": "assistant", "content": message.content}]})

    sent = b'{"messages":[{"role":"assistant","content":[' + thinking + b"," + unknown + b"]}]}"
    assert body == sent
