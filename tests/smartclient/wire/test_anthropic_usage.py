"""What the Messages format tells of tokens, and how it was served."""

from __future__ import annotations

from typing import Any

import pytest

from smartclient.wire import Delta, Served, Usage
from smartclient.wire.encode import encode
from tests.smartclient.wire.test_anthropic_messages import ADAPTER, part


def usage_of(counts: Any) -> Usage | None:
    return ADAPTER.whole(encode({"type": "message", "usage": counts})).delta.usage


def test_cumulative_counts_replace_what_came_before():
    """Adding them would bill 16 tokens for 15 (agent-framework#7143)."""
    first = part(
        type="message_start",
        message={"usage": {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1}},
    )
    last = part(type="message_delta", usage={"input_tokens": None, "output_tokens": 15})
    assert first.delta.usage is not None
    assert last.delta.usage is not None

    usage = first.delta.usage.updated(last.delta.usage)

    assert usage == Usage(uncached=9, cache_read=4, cache_write={}, output=15)


def test_a_message_delta_may_tell_no_usage():
    assert part(type="message_delta", delta={"stop_reason": "refusal"}).delta == Delta(
        finish="refusal"
    )


def test_a_message_delta_may_correct_what_was_cached():
    told = part(type="message_delta", usage={"cache_creation_input_tokens": 5})

    assert told.delta.usage == Usage(cache_write={"5m": 5})


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param(
            {"input_tokens": 3, "cache_creation_input_tokens": 12_304, "output_tokens": 550},
            Usage(uncached=3, cache_read=0, cache_write={"5m": 12_304}, output=550),
            id="input-excludes-what-is-written",  # litellm#9812
        ),
        pytest.param(
            {"input_tokens": 3, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 9,
             "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5}},
            Usage(uncached=3, cache_read=7, cache_write={"5m": 4, "1h": 5}),
            id="written-by-time-to-live",
        ),
        pytest.param(
            {"cache_creation_input_tokens": 9,
             "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}},
            Usage(cache_read=0, cache_write={"5m": 9}),
            id="the-total-wins-over-an-empty-split",
        ),
        pytest.param(
            {"input_tokens": None, "cache_read_input_tokens": None, "cache_creation": None,
             "cache_creation_input_tokens": None, "output_tokens": None},
            Usage(cache_read=0, cache_write={}),
            id="null-is-unknown-and-of-the-cache-zero",
        ),
        pytest.param(
            {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
             "output_tokens": 0},
            Usage(uncached=0, cache_read=0, cache_write={}, output=0),
            id="zero-is-a-count",  # openllmetry PR#3142
        ),
        pytest.param(
            {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1,
             "prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11,
             "prompt_tokens_details": {"cached_tokens": 7}},
            Usage(uncached=3, cache_read=7, cache_write={}, output=1),
            id="two-vocabularies-at-once",  # litellm#9812: the endpoint tells which counts
        ),
        pytest.param(
            {"input_tokens": 1, "output_tokens": 8,
             "output_tokens_details": {"thinking_tokens": 5}},
            Usage(uncached=1, cache_read=0, cache_write={}, output=8, reasoning=5),
            id="thinking-is-part-of-the-output",
        ),
        pytest.param(None, None, id="missing-usage"),
        pytest.param("many", None, id="odd-usage"),
    ],
)  # fmt: skip
def test_usage_has_one_normal_form(counts, expected):
    assert usage_of(counts) == expected


def test_numbers_that_cannot_be_are_marked_with_what_was_told():
    counts = {"input_tokens": 3, "output_tokens": 2, "new": 1,
              "output_tokens_details": {"thinking_tokens": 5}}  # fmt: skip

    usage = usage_of(counts)

    assert usage.inconsistent == "5 tokens of reasoning in 2 of output"
    assert usage.raw == counts
    assert (usage.uncached, usage.output, usage.reasoning) == (3, 2, 5)


def test_numbers_of_a_stream_that_cannot_be_are_marked_too():
    told = part(type="message_delta", usage={"output_tokens": -2, "new": 1})

    assert told.delta.usage.inconsistent == "-2 tokens of output"
    assert told.delta.usage.raw == {"output_tokens": -2, "new": 1}


SERVED = {"service_tier": "priority", "speed": "fast", "inference_geo": "us"}


def test_a_reply_says_how_it_was_served():
    body = encode({"model": "claude-x", "usage": {"input_tokens": 1} | SERVED})
    start = part(type="message_start", message={"model": "claude-x", "usage": SERVED})

    served = Served(model="claude-x", service_tier="priority", speed="fast", geo="us")
    assert ADAPTER.whole(body).delta.served == start.delta.served == served


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"content": [{"type": "server_tool_use"}]}, id="a-tool-of-the-provider"),
        pytest.param({"content": [{"type": "web_search_tool_result"}]}, id="its-result"),
        pytest.param({"usage": {"server_tool_use": {"web_search_requests": 1}}}, id="counted"),
        pytest.param({"usage": {"iterations": [{}]}}, id="several-passes"),
        pytest.param({"context_management": {"applied_edits": [{}]}}, id="an-edited-context"),
    ],
)
def test_a_reply_whose_input_is_not_the_requests_alone_says_so(fields):
    assert ADAPTER.whole(encode(fields)).delta.changes_input


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"content": [{"type": "text"}, {"type": "tool_use"}]}, id="the-callers-tool"),
        pytest.param({"usage": {"server_tool_use": {"web_search_requests": 0}}}, id="none-ran"),
        pytest.param({"context_management": {"applied_edits": []}}, id="no-edit"),
        pytest.param({"content": "x", "context_management": "y", "usage": {}}, id="odd"),
    ],
)
def test_an_ordinary_reply_is_its_requests(fields):
    assert not ADAPTER.whole(encode(fields)).delta.changes_input


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_start", "content_block": {"type": "server_tool_use"}},
        {"type": "message_delta", "usage": {"server_tool_use": {"web_search_requests": 2}}},
        {"type": "message_delta", "context_management": {"applied_edits": [{}]}},
    ],
    ids=["block", "counted", "edited"],
)
def test_a_stream_says_it_too(event):
    assert part(**event).delta.changes_input


@pytest.mark.parametrize(
    ("fields", "fees"),
    [
        pytest.param(
            {"content": [{"type": "server_tool_use", "name": "web_search"}]}, True, id="search"
        ),
        pytest.param(
            {"content": [{"type": "server_tool_use", "name": "web_fetch"}]}, False, id="fetch"
        ),
        pytest.param({"usage": {"server_tool_use": {"web_search_requests": 1}}}, True, id="told"),
        pytest.param({"usage": {"iterations": [{}]}}, True, id="passes-that-are-not-counted"),
        pytest.param({"context_management": {"applied_edits": [{}]}}, False, id="an-edit"),
        pytest.param({"content": [{"type": "tool_use"}]}, False, id="the-callers-tool"),
    ],
)
def test_a_reply_says_whether_it_cost_more_than_its_tokens(fields, fees):
    assert ADAPTER.whole(encode(fields)).delta.has_fees is fees


@pytest.mark.parametrize(
    ("event", "fees"),
    [
        ({"content_block": {"type": "server_tool_use", "name": "web_search"}}, True),
        ({"content_block": {"type": "server_tool_use", "name": "web_fetch"}}, False),
    ],
    ids=["search", "fetch"],
)
def test_a_stream_says_it_when_the_tool_begins(event, fees):
    assert part(type="content_block_start", **event).delta.has_fees is fees


def test_a_stream_says_it_with_its_last_counts():
    usage = {"server_tool_use": {"web_search_requests": 2}}

    assert part(type="message_delta", usage=usage).delta.has_fees
