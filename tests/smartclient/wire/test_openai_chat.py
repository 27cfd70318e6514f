"""The Chat Completions format as it is documented, and as its imitators speak it."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest

from smartclient.wire import Delta, Part, Served, Usage
from smartclient.wire.encode import encode
from smartclient.wire.openai_chat import OpenAIChat
from smartclient.wire.sse import Event

ADAPTER = OpenAIChat()


def part(**payload: Any) -> Part:
    return ADAPTER.part(Event("message", encode(payload).decode()))


def choice(**fields: Any) -> Part:
    return part(choices=[{"index": 0, **fields}])


@pytest.mark.parametrize(
    ("delta", "has_tokens"),
    [
        pytest.param({"content": "a"}, True, id="content"),
        pytest.param({"role": "assistant", "content": ""}, False, id="role"),
        pytest.param({"content": None}, False, id="null-content"),
        pytest.param({"refusal": "no"}, True, id="refusal"),
        pytest.param({"reasoning_content": "hm"}, True, id="reasoning-content"),
        pytest.param({"reasoning": "hm"}, True, id="reasoning"),
        pytest.param(
            {"tool_calls": [{"index": 0, "function": {"name": "f"}}]}, True, id="tool-call"
        ),
        pytest.param({"tool_calls": []}, False, id="no-tool-call"),
        pytest.param({"tool_calls": None}, False, id="null-tool-calls"),
        pytest.param({"new": 1}, False, id="unknown"),
        pytest.param({}, False, id="empty"),
        pytest.param(None, False, id="null"),
    ],
)
def test_tokens_are_what_the_model_wrote(delta, has_tokens):
    told = choice(delta=delta, finish_reason=None)

    assert told.delta == Delta(has_tokens=has_tokens)


def test_a_chunk_is_read_by_attribute():
    value = part(id="c", model="m", choices=[{"index": 1, "delta": {"content": "hi"}}]).value

    assert (value.id, value.model) == ("c", "m")
    assert (value.choices[0].index, value.choices[0].delta.content) == (1, "hi")
    assert value.usage is None


def test_each_choice_that_finishes_is_told():
    choices = [{"index": 1, "finish_reason": "length"}, {"finish_reason": "stop"}, {"index": 2}]

    told = part(choices=choices)

    assert (told.delta.finish, told.delta.finished) == ("length", (1, 0))


def test_a_finish_reason_is_told_with_the_last_content():
    """Some servers send both in one chunk, and dropping either cuts the answer."""
    told = choice(delta={"content": "a"}, finish_reason="stop")

    assert told.delta == Delta(has_tokens=True, finish="stop", finished=(0,))


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"choices": [], "prompt_filter_results": []}, id="azure-first-chunk"),
        pytest.param({"choices": None}, id="null-choices"),
        pytest.param({"id": "x"}, id="metadata"),
    ],
)
def test_a_chunk_without_choices_is_usual(payload):
    told = part(**payload)

    assert told.delta == Delta()
    assert told.value.choices == []


def test_usage_is_told_by_any_chunk():
    told = part(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 2})

    assert told.delta == Delta(usage=Usage(uncached=5, output=2))
    assert told.value.usage.prompt_tokens == 5


@pytest.mark.parametrize("data", ["[DONE]", " [DONE]  ", "[DONE]\n"])
def test_the_terminal_mark_is_no_json(data):
    assert ADAPTER.part(Event("message", data)) == Part(None, Delta(is_terminal=True))


@pytest.mark.parametrize("data", ["", " ", "null"])
def test_data_that_says_nothing_is_silent(data):
    assert ADAPTER.part(Event("message", data)) == Part(None, Delta())


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(
            '{"error":{"message":"x","type":"server_error"}}', "server", id="instead-of-choices"
        ),
        pytest.param(
            '{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"error":{"code":429}}',
            "rate_limited",
            id="beside-choices",
        ),
        pytest.param('{"error":"broken","choices":[]}', "server", id="text"),
        pytest.param('{"error":{}}', "server", id="empty"),
        pytest.param(
            '{"object":"error","message":"too long","code":400}', "invalid", id="vllm-flat"
        ),
        pytest.param(
            '{"choices":[{"delta":{},"finish_reason":"error"}]}', "server", id="as-finish-reason"
        ),
        pytest.param(
            '{"choices":[{"delta":{},"finish_reason":"error","error":{"code":503}}]}',
            "overloaded",
            id="inside-a-choice",
        ),
    ],
)
def test_an_error_is_a_failure_whatever_else_is_there(data, kind):
    """Dropped, it would be an empty success (litellm#40578)."""
    told = ADAPTER.part(Event("message", data))

    assert told.value is None
    assert told.delta.failure is not None
    assert told.delta.failure.kind == kind


@pytest.mark.parametrize("data", ['{"type":"server_error","message":"x"}', "broke"])
def test_an_event_called_error_is_a_failure(data):
    failure = ADAPTER.part(Event("error", data)).delta.failure

    assert failure is not None
    assert failure.kind == "server"


def test_a_null_error_is_none():
    assert (
        choice(delta={"content": "a"}).delta
        == part(error=None, choices=[{"delta": {"content": "a"}}]).delta
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param('{"choices":[{"del', id="cut"),
        pytest.param("hello", id="text"),
        pytest.param("[]", id="list"),
        pytest.param('{"choices":"x"}', id="text-in-place-of-a-list"),
        pytest.param("[" * 100_000, id="absurd-depth"),
    ],
)
def test_malformed_data_is_a_failure_not_an_exception(data):
    failure = ADAPTER.part(Event("message", data)).delta.failure

    assert failure is not None
    assert failure.kind == "malformed"


def test_odd_scalars_do_not_end_the_stream():
    told = part(
        created=1.5,
        id=7,
        system_fingerprint=[],
        choices=[{"index": "0", "delta": {"content": "a"}}],
    )

    assert told.delta.has_tokens
    assert told.value.choices[0].index == 0


def test_a_chunk_keeps_its_source():
    source = '{"choices": [{"delta": {"content": "é", "new": 1.0}}]}'

    value = ADAPTER.part(Event("message", source)).value

    assert value.raw == source.encode()
    assert value.to_dict()["choices"][0]["delta"]["new"] == 1.0
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param(
            {"prompt_tokens": 2000, "completion_tokens": 9,
             "prompt_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 300},
             "completion_tokens_details": {"reasoning_tokens": 4}},
            Usage(uncached=1200, cache_read=500, cache_write={"30m": 300}, output=9, reasoning=4),
            id="prompt-includes-cached-and-written",  # litellm#40006
        ),
        pytest.param(
            {"prompt_tokens": 7, "completion_tokens": 1,
             "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": None}},
            Usage(uncached=7, cache_read=0, cache_write={}, output=1),
            id="null-is-zero",
        ),
        pytest.param(
            {"prompt_tokens": 48, "completion_tokens": 2,
             "prompt_tokens_details": {"cached_tokens": 32}},
            Usage(uncached=16, cache_read=32, cache_write={}, output=2),
            id="vllm",
        ),
        pytest.param(
            {"prompt_tokens": 48, "completion_tokens": 2, "prompt_tokens_details": None},
            Usage(uncached=48, output=2),
            id="vllm-without-details-leaves-cached-unknown",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 1,
             "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4},
            Usage(uncached=4, cache_read=6, output=1),
            id="deepseek",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 1,
             "prompt_tokens_details": {"cached_tokens": 4}, "cache_read_input_tokens": 4},
            Usage(uncached=6, cache_read=4, cache_write={}, output=1),
            id="two-vocabularies-at-once",
        ),
        pytest.param(
            {"prompt_tokens": 12_307, "completion_tokens": 550,
             "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_tokens": 12_304},
             "cache_creation_input_tokens": 12_304, "cache_read_input_tokens": 0},
            Usage(uncached=3, cache_read=0, cache_write={"5m": 12_304}, output=550),
            id="a-gateway-tells-what-was-written",  # litellm#9812
        ),
        pytest.param(
            {"prompt_tokens": 2000, "completion_tokens": 1, "cache_read_input_tokens": 500,
             "cache_creation_input_tokens": 300},
            Usage(uncached=1200, cache_read=500, cache_write={"5m": 300}, output=1),
            id="a-gateway-without-details",  # litellm#40006
        ),
        pytest.param(
            {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None},
            Usage(),
            id="null-is-unknown",
        ),
        pytest.param(
            {"prompt_tokens": 0, "completion_tokens": 0,
             "prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 6},
            Usage(uncached=0, cache_read=0, cache_write={}, output=0),
            id="zero-is-a-count",
        ),
        pytest.param(None, None, id="missing-usage"),
        pytest.param("many", None, id="odd-usage"),
    ],
)  # fmt: skip
def test_usage_has_one_normal_form(counts, expected):
    assert ADAPTER.whole(encode({"choices": [], "usage": counts})).delta.usage == expected


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        pytest.param(
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}},
            "10 input tokens, of which 60 cached or written",
            id="cached-beyond-the-prompt",
        ),
        pytest.param(
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": -2}},
            "-2 tokens of input read from the cache",
            id="negative",
        ),
        pytest.param(
            {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 94}},
            "94 tokens of reasoning in 9 of output",
            id="reasoning-beyond-the-completion",
        ),
    ],
)
def test_numbers_that_cannot_be_are_marked_and_never_mended(counts, why):
    whole = ADAPTER.whole(encode({"choices": [], "usage": counts})).delta.usage

    assert (whole.inconsistent, whole.raw) == (why, counts)
    assert part(choices=[], usage=counts).delta.usage == whole


def test_counts_come_with_how_they_were_served():
    told = {"model": "m-1", "service_tier": "flex", "usage": {"prompt_tokens": 1}}

    served = Served(model="m-1", service_tier="flex")
    assert ADAPTER.whole(encode(told)).delta.served == served
    assert part(choices=[], **told).delta.served == served
    assert part(model="m-1", choices=[{"finish_reason": "stop"}]).delta.served is None


def test_a_whole_reply_tells_its_end():
    body = encode({"choices": [{"message": {"content": "a"}, "finish_reason": "length"}]})

    assert ADAPTER.whole(body).delta == Delta(has_tokens=True, is_terminal=True, finish="length")


@pytest.mark.parametrize("choices", [None, "x", {"a": 1}, [1, None]])
def test_odd_choices_are_no_error(choices):
    assert ADAPTER.whole(encode({"choices": choices})).delta.failure is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{"])
def test_a_whole_reply_that_is_no_json_is_a_failure(body):
    failure = ADAPTER.whole(body).delta.failure

    assert failure is not None
    assert failure.kind == "malformed"
    with pytest.raises(msgspec.DecodeError):
        ADAPTER.value(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"error":{"code":503}}', id="instead"),
        pytest.param(
            b'{"choices":[{"finish_reason":"error","error":{"code":503}}]}', id="inside-a-choice"
        ),
    ],
)
def test_an_error_in_a_reply_that_claims_success_is_a_failure(body):
    failure = ADAPTER.whole(body).delta.failure

    assert failure is not None
    assert failure.kind == "overloaded"


def test_a_reply_is_read_by_attribute():
    completion = ADAPTER.value(
        b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":'
        b'[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":'
        b'"tool_calls"}],"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":2}}}'
    )

    [first] = completion.choices
    assert first.message.content is None
    assert first.message.tool_calls is not None
    assert first.message.tool_calls[0].function.name == "f"
    assert first.finish_reason == "tool_calls"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens_details is not None
    assert completion.usage.prompt_tokens_details.cached_tokens == 2


def test_a_message_sent_back_is_byte_for_byte_what_came():
    """Any other byte would miss the prompt cache from there on."""
    calls = b'"tool_calls":[ {"id":"t","x":1e2} ]'
    source = b'{"role": "assistant","content":"\\u00e9", "new":[1.0],' + calls + b"}"
    completion = ADAPTER.value(b'{"choices":[{"message":' + source + b"}]}")
    message = completion.choices[0].message

    assert encode({"messages": [message]}) == b'{"messages":[' + source + b"]}"
    assert encode(message.tool_calls) == b'[{"id":"t","x":1e2}]'
    assert pickle.loads(pickle.dumps(message)).raw == source
