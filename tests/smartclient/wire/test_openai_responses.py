"""The Responses format as it is documented, and as its imitators speak it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import msgspec
import pytest

from smartclient.wire import Delta, Part, Served, Usage
from smartclient.wire.encode import encode
from smartclient.wire.openai_responses import OpenAIResponses
from smartclient.wire.sse import Event

ADAPTER = OpenAIResponses()
MESSAGE = (
    b'{"type": "message","id":"m","role":"assistant", "content":[ {"type":"output_text",'
    b'"text":"\\u00e9","annotations":[],"new":1.0} ]}'
)


def part(kind: str, **fields: Any) -> Part:
    return ADAPTER.part(Event(kind, encode({"type": kind, **fields}).decode()))


@pytest.mark.parametrize(
    ("kind", "has_tokens"),
    [
        pytest.param("response.output_text.delta", True, id="text"),
        pytest.param("response.refusal.delta", True, id="refusal"),
        pytest.param("response.reasoning_text.delta", True, id="reasoning"),
        pytest.param("response.reasoning_summary_text.delta", True, id="reasoning-summary"),
        pytest.param("response.function_call_arguments.delta", True, id="arguments"),
        pytest.param("response.custom_tool_call_input.delta", True, id="custom-tool"),
        pytest.param("response.shell_call_output_content.delta", False, id="what-a-tool-wrote"),
        pytest.param("response.output_text.done", False, id="repeated-whole"),
        pytest.param("response.brand_new", False, id="unknown"),
        pytest.param("keepalive", False, id="keepalive"),
    ],
)
def test_tokens_are_what_the_model_wrote(kind, has_tokens):
    told = part(kind, delta="a", sequence_number=3)

    assert told.delta == Delta(has_tokens=has_tokens)
    assert told.value.sequence_number == 3


@pytest.mark.parametrize("delta", ["", None])
def test_an_empty_delta_has_no_tokens(delta):
    assert part("response.output_text.delta", delta=delta).delta == Delta()


def test_an_event_is_read_by_attribute_and_keeps_its_source():
    source = '{"type": "response.output_text.delta", "delta":"\\u00e9", "obfuscation":"x"}'

    value = ADAPTER.part(Event("message", source)).value

    assert (value.delta, value.output_index, value.item) == ("é", None, None)
    assert value.raw == source.encode()
    assert value.to_dict()["obfuscation"] == "x"
    assert pickle.loads(pickle.dumps(value)) == value


def test_an_event_without_a_type_is_known_by_its_name():
    assert ADAPTER.part(Event("response.output_text.delta", '{"delta":"a"}')).delta.has_tokens


USAGE = {"input_tokens": 5, "output_tokens": 2}


@pytest.mark.parametrize(
    ("kind", "response", "finish"),
    [
        pytest.param("response.completed", {"status": "completed"}, "completed", id="completed"),
        pytest.param(
            "response.incomplete",
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "max_output_tokens",
            id="incomplete",
        ),
        pytest.param(
            "response.incomplete",
            {"status": "incomplete", "incomplete_details": None},
            "incomplete",
            id="incomplete-without-a-reason",
        ),
    ],
)
def test_the_last_event_tells_the_end_and_the_counts(kind, response, finish):
    told = part(kind, response={**response, "usage": USAGE})

    assert told.delta == Delta(usage=Usage(uncached=5, output=2), is_terminal=True, finish=finish)
    assert told.value.response.usage.output_tokens == 2


def test_a_last_event_without_its_response_is_an_end_all_the_same():
    assert part("response.completed").delta == Delta(is_terminal=True)


def test_the_first_events_tell_nothing():
    assert part("response.created", response={"usage": None, "output": []}).delta == Delta()


@pytest.mark.parametrize(
    ("error", "kind", "is_transient"),
    [
        pytest.param({"code": "server_error", "message": "x"}, "server", True, id="server"),
        pytest.param({"code": "rate_limit_exceeded"}, "rate_limited", True, id="rate"),
        pytest.param({"code": "server_is_overloaded"}, "overloaded", True, id="overloaded"),
        pytest.param({"code": "insufficient_quota"}, "money", False, id="money"),
        pytest.param({"code": "invalid_prompt"}, "invalid", False, id="prompt"),
        pytest.param({"code": "image_too_large"}, "invalid", False, id="image"),
        pytest.param({"code": "vector_store_timeout"}, "timeout", True, id="timeout"),
        pytest.param(None, "server", True, id="without-a-reason"),
    ],
)
def test_a_failed_response_is_a_failure_by_its_error(error, kind, is_transient):
    told = part("response.failed", response={"status": "failed", "error": error, "usage": USAGE})

    assert told.value is None
    assert told.delta.is_terminal
    assert told.delta.usage == Usage(uncached=5, output=2)
    assert told.delta.failure is not None
    assert (told.delta.failure.kind, told.delta.failure.is_transient) == (kind, is_transient)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            '{"type":"error","code":"rate_limit_exceeded","message":"slow","sequence_number":1}',
            id="documented",
        ),
        pytest.param(
            '{"type":"error","error":{"code":"rate_limit_exceeded","message":"slow"}}', id="nested"
        ),
        pytest.param('{"error":{"code":"rate_limit_exceeded","message":"slow"}}', id="bare"),
    ],
)
def test_an_error_event_is_a_failure(data):
    """Dropped, it would be an empty success (litellm#40578)."""
    told = ADAPTER.part(Event("error", data))

    assert told.value is None
    assert told.delta.failure is not None
    assert (told.delta.failure.kind, told.delta.failure.type) == ("rate_limited", None)
    assert told.delta.failure.message == "slow"


def test_an_error_event_that_is_no_json_is_a_failure():
    failure = ADAPTER.part(Event("error", "broke")).delta.failure

    assert failure is not None
    assert failure.message == "broke"


@pytest.mark.parametrize("data", ["", " ", "null", "[DONE]"])
def test_data_that_says_nothing_is_silent(data):
    """Some imitators end with Chat's mark; it is no proof that the response is whole."""
    assert ADAPTER.part(Event("message", data)) == Part(None, Delta())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param('{"type":"response.out', id="cut"),
        pytest.param("hello", id="text"),
        pytest.param("[]", id="list"),
        pytest.param('{"response":"x"}', id="text-in-place-of-a-response"),
        pytest.param("[" * 100_000, id="absurd-depth"),
    ],
)
def test_malformed_data_is_a_failure_not_an_exception(data):
    failure = ADAPTER.part(Event("message", data)).delta.failure

    assert failure is not None
    assert failure.kind == "malformed"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"output_index": None, "item_id": 7}, id="odd-scalars"),
        pytest.param({"output_index": "0"}, id="number-in-quotes"),
        pytest.param({"logprobs": None, "content_index": None}, id="nulls"),
    ],
)
def test_odd_scalars_do_not_end_the_stream(fields):
    assert part("response.output_text.delta", delta="a", **fields).delta.has_tokens


def test_numbers_that_are_none_do_not_end_the_stream():
    data = '{"type":"response.completed","response":{"status":"completed","temperature":NaN}}'

    assert ADAPTER.part(Event("message", data)).delta.finish == "completed"


def test_an_item_of_a_stream_keeps_the_bytes_that_came():
    """Any other byte would miss the prompt cache from there on."""
    done = b'{"type":"response.output_item.done","item":' + MESSAGE + b"}"
    end = b'{"type":"response.completed","response":{"output":[' + MESSAGE + b"]}}"

    item = ADAPTER.part(Event("message", done.decode())).value.item
    [last] = ADAPTER.part(Event("message", end.decode())).value.response.output

    assert (item.raw, last.raw) == (MESSAGE, MESSAGE)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param(
            {"input_tokens": 2000, "output_tokens": 9,
             "input_tokens_details": {
                 "cached_tokens": 500, "cache_write_tokens": 300,
                 "cache_write_tokens_details": {"ttl_30m_tokens": 200, "ttl_12h_tokens": 100}},
             "output_tokens_details": {"reasoning_tokens": 4}},
            Usage(uncached=1200, cache_read=500, cache_write={"30m": 200, "12h": 100}, output=9,
                  reasoning=4),
            id="input-includes-cached-and-written",
        ),
        pytest.param(
            {"input_tokens": 10, "output_tokens": 1,
             "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 4}},
            Usage(uncached=6, cache_read=0, cache_write={"30m": 4}, output=1),
            id="written-without-a-split",
        ),
        pytest.param(
            {"input_tokens": 10, "output_tokens": 1,
             "input_tokens_details": {"cache_write_tokens_details": {"ttl_12h_tokens": 3}}},
            Usage(uncached=7, cache_read=0, cache_write={"12h": 3}, output=1),
            id="split-without-a-total",
        ),
        pytest.param(
            {"input_tokens": 10, "output_tokens": None},
            Usage(uncached=10),
            id="without-details-cached-is-unknown",
        ),
        pytest.param(
            {"input_tokens": 0, "output_tokens": 0, "input_tokens_details": {"cached_tokens": 0}},
            Usage(uncached=0, cache_read=0, cache_write={}, output=0),
            id="zero-is-a-count",
        ),
        pytest.param(None, None, id="missing-usage"),
        pytest.param("many", None, id="odd-usage"),
    ],
)  # fmt: skip
def test_usage_has_one_normal_form(counts, expected):
    usage = ADAPTER.whole(encode({"output": [], "usage": counts})).delta.usage

    assert usage == expected
    if usage is not None and usage.uncached is not None:
        assert usage.input_tokens == counts["input_tokens"]


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        pytest.param(
            {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 60}},
            "10 input tokens, of which 60 cached or written",
            id="cached-beyond-the-input",
        ),
        pytest.param(
            {"input_tokens": 10, "input_tokens_details": {
                "cache_write_tokens": 5, "cache_write_tokens_details": {"ttl_12h_tokens": 3}}},
            "5 tokens written to the cache, of which 3 told apart",
            id="details-beside-their-total",
        ),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_marked_and_never_mended(counts, why):
    whole = ADAPTER.whole(encode({"output": [], "usage": counts})).delta.usage
    end = part("response.completed", response={"usage": counts}).delta.usage

    assert (whole.inconsistent, whole.raw) == (why, counts)
    assert end == whole


def test_counts_come_with_how_they_were_served():
    told = {"model": "m-1", "service_tier": "flex", "usage": {"input_tokens": 1}}

    served = Served(model="m-1", service_tier="flex")
    assert ADAPTER.whole(encode(told)).delta.served == served
    assert part("response.completed", response=told).delta.served == served
    assert part("response.failed", response=told).delta.served == served
    assert part("response.created", response=told | {"usage": None}).delta.served is None


@pytest.mark.parametrize(
    ("kind", "changes", "fees"),
    [
        ("web_search_call", True, True),
        ("mcp_call", True, False),
        ("function_call", False, False),
        ("message", False, False),
    ],
)
def test_a_tool_that_ran_at_the_provider_is_told(kind, changes, fees):
    told = {"output": [{"type": kind}]}

    for delta in (
        ADAPTER.whole(encode(told)).delta,
        part("response.completed", response=told).delta,
    ):
        assert (delta.changes_input, delta.has_fees) == (changes, fees)


def test_a_whole_reply_tells_its_end():
    body = encode({"status": "completed", "error": None, "output": [{"type": "message"}]})

    assert ADAPTER.whole(body).delta == Delta(has_tokens=True, is_terminal=True, finish="completed")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"status":"failed","error":{"code":"server_is_overloaded"}}', id="failed"),
        pytest.param(b'{"error":{"code":503}}', id="an-error-alone"),
    ],
)
def test_an_error_in_a_reply_that_claims_success_is_a_failure(body):
    failure = ADAPTER.whole(body).delta.failure

    assert failure is not None
    assert failure.kind == "overloaded"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{"])
def test_a_whole_reply_that_is_no_json_is_a_failure(body):
    failure = ADAPTER.whole(body).delta.failure

    assert failure is not None
    assert failure.kind == "malformed"
    with pytest.raises(msgspec.DecodeError):
        ADAPTER.value(body)


def test_the_text_of_all_messages_is_joined():
    response = ADAPTER.value(
        encode(
            {
                "output_text": "not this",
                "output": [
                    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
                    {"type": "message", "content": [{"type": "output_text", "text": "a"}]},
                    {
                        "type": "message",
                        "content": [
                            {"type": "refusal", "refusal": "no"},
                            {"type": "output_text", "text": "b"},
                        ],
                    },
                ],
            }
        )
    )

    assert response.output_text == "ab"


@pytest.mark.parametrize(
    "output",
    [
        None,
        "x",
        [1, None],
        [{"type": "message", "content": "a"}],
        [{"type": "message", "content": [{"type": "output_text", "text": None}, 3]}],
    ],
)
def test_odd_output_has_no_text_and_is_no_error(output):
    body = encode({"output": output})

    assert ADAPTER.value(body).output_text == ""
    assert ADAPTER.whole(body).delta.failure is None


def test_output_sent_back_is_byte_for_byte_what_came():
    """Reasoning too: the provider reads what is encrypted in it (`encrypted_content`)."""
    reasoning = b'{"type":"reasoning","summary":[], "encrypted_content":"gA=="}'
    response = ADAPTER.value(b'{"output":[' + reasoning + b", " + MESSAGE + b"]}")
    question = {"role": "user", "content": "And?"}

    sent = encode({"input": [*response.output, question]})

    assert sent == b'{"input":[' + reasoning + b"," + MESSAGE + b"," + encode(question) + b"]}"
    assert json.loads(sent)["input"][1]["content"][0]["text"] == "é"
    assert pickle.loads(pickle.dumps(response)).output[0].raw == reasoning
