"""Messages requests, against what Anthropic's pages show.

Its tokenizer is not public: two counts and the ratios of the pages are all that can be checked.
"""

from __future__ import annotations

import pytest

from smartclient.tokens import count
from smartclient.tokens.anthropic_messages import tool_prompt
from smartclient.tokens.encodings import CLAUDE_GROWTH
from tests.smartclient.tokens.images import base64, png
from tests.smartclient.tokens.samples import WEATHER_TOOL

OLD, NEW = "claude-opus-4-6", "claude-opus-5"
# platform.claude.com, "Token counting": its two examples with a number.
SCIENTIST = {
    "system": "You are a scientist",
    "messages": [{"role": "user", "content": "Hello, Claude"}],
}
TOOL = {
    "name": "get_weather",
    "description": "Get the current weather in a given location",
    "input_schema": {
        "type": "object",
        "properties": {
            "location": {
                "type": "string",
                "description": "The city and state, e.g. San Francisco, CA",
            }
        },
        "required": ["location"],
    },
}
ASKED = {"role": "user", "content": "What's the weather like in San Francisco?"}
IMAGE = {"type": "image", "source": {"type": "base64", "data": base64(png(1000, 1000))}}


def of(*blocks, model=NEW, **more):
    return count({"messages": [{"role": "user", "content": list(blocks)}], **more}, model=model)


@pytest.mark.parametrize("model", [OLD, NEW])
@pytest.mark.parametrize(
    ("payload", "tokens"),
    [
        pytest.param(SCIENTIST, 14, id="system"),
        pytest.param({"messages": [ASKED], "tools": [TOOL]}, 403, id="tools"),
    ],
)
def test_what_the_page_shows_lies_in_the_band(model, payload, tokens):
    counted = count(payload, model=model)

    assert counted.p05 <= tokens <= counted.p95
    assert counted.p95 < 2 * tokens
    assert counted.source == "heuristic"


def test_newer_models_make_more_tokens_of_the_same_text():
    text = "The quick brown fox jumps over the lazy dog. " * 200

    old, new = (of({"type": "text", "text": text}, model=model).p50 for model in (OLD, NEW))

    assert new / old == pytest.approx(CLAUDE_GROWTH, rel=0.01)


def test_text_is_fifteen_to_twenty_percent_more_than_tiktoken_says(truth):
    """As Anthropic's own skill for its API tells (anthropics/skills)."""
    text = "The quick brown fox jumps over the lazy dog. " * 200

    counted = of({"type": "text", "text": text}, model=OLD)

    assert 0.80 <= truth["o200k_base"](text) / counted.p50 <= 0.85


@pytest.mark.parametrize(
    ("name", "choice", "tokens"),
    [
        ("claude-opus-5", "auto", (286, True)),
        ("claude-opus-5", "any", (406, True)),
        ("claude-sonnet-5", "tool", (474, True)),
        ("claude-opus-4-7", "none", (675, True)),
        ("claude-opus-4-6", "auto", (346, True)),
        ("claude-opus-9", "auto", (350, False)),
    ],
)
def test_tools_bring_a_prompt_of_the_models_own(name, choice, tokens):
    assert tool_prompt(name, choice) == tokens


def test_a_named_tool_brings_the_longer_prompt():
    payload = {"messages": [ASKED], "tools": [TOOL]}

    chosen = count(payload | {"tool_choice": {"type": "tool", "name": "x"}}, model=NEW)

    assert chosen.p50 - count(payload, model=NEW).p50 == 406 - 286


def test_a_mark_of_the_cache_is_no_token():
    marked = TOOL | {"cache_control": {"type": "ephemeral"}}

    assert count({"messages": [ASKED], "tools": [marked]}, model=NEW) == count(
        {"messages": [ASKED], "tools": [TOOL]}, model=NEW
    )


def test_an_image_counts_by_its_squares():
    counted = of(IMAGE)

    assert counted.p50 == of().p50 + 1296
    assert (counted.kind, counted.unknown) == ("images", ())


ELSEWHERE = {"type": "url", "url": "https://a.example/b"}
PDF = {"type": "base64", "data": "QUJD"}
RESULT = {"type": "tool_result", "content": [{"type": "image", "source": None}]}


@pytest.mark.parametrize(
    ("block", "path"),
    [
        pytest.param({"type": "image", "source": ELSEWHERE}, "", id="image"),
        pytest.param({"type": "document", "source": PDF}, "", id="pdf"),
        pytest.param({"type": "document", "source": ELSEWHERE}, "", id="document"),
        pytest.param({"type": "redacted_thinking", "data": "x" * 800}, "", id="sealed"),
        pytest.param(RESULT, ".content[0]", id="inside-a-result"),
    ],
)
def test_a_block_that_cannot_be_counted_is_a_band_and_named(block, path):
    counted = of(block)

    assert counted.unknown == (f"messages[0].content[0]{path}",)
    assert counted.p05 < counted.p50 < counted.p95


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        pytest.param({"type": "tool_use", "name": "f", "input": {"a": 1}}, "tools", id="tool-use"),
        pytest.param({"type": "tool_result", "content": "4"}, "tools", id="tool-result"),
        pytest.param({"type": "thinking", "thinking": "Let me see."}, "text", id="thinking"),
        pytest.param({"type": "search_result", "title": "T"}, "code", id="other"),
        pytest.param(
            {"type": "document", "title": "T", "source": {"type": "text", "data": "Hello"}},
            "text",
            id="text-document",
        ),
        pytest.param(
            {"type": "document", "source": {"type": "content", "content": "Hello"}},
            "text",
            id="content-document",
        ),
        pytest.param("just text", "text", id="nonsense"),
    ],
)
def test_a_block_adds_tokens(block, kind):
    counted = of(block)

    assert counted.p50 > of().p50
    assert (counted.kind, counted.unknown) == (kind, ())


def test_thinking_of_earlier_turns_may_be_dropped():
    counted = of({"type": "thinking", "thinking": "so " * 500})

    assert counted.p05 < 20 < 500 < counted.p50


def test_tools_that_the_provider_defines_are_a_band():
    counted = count(
        {"messages": [ASKED], "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        model=NEW,
        endpoint="anthropic.messages",
    )

    assert counted.unknown == ("tools[0]",)


def test_the_format_of_the_answer_counts():
    wanted = {"format": {"type": "json_schema", "schema": WEATHER_TOOL}}

    assert of(output_config=wanted).p50 > of().p50 + 20


def test_a_message_that_is_none_counts_as_text():
    assert count({"system": "", "messages": ["Hello"]}, model=NEW).p50 > 0
