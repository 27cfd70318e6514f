"""Chat Completions requests, against totals that OpenAI published."""

from __future__ import annotations

import pytest

from smartclient.tokens import count
from tests.smartclient.tokens.images import base64, png
from tests.smartclient.tokens.samples import JARGON, WEATHER, WEATHER_TOOL, fields

TOOL = {"type": "function", "function": WEATHER_TOOL}
IMAGE = {"url": f"data:image/png;base64,{base64(png(1024, 1024))}", "detail": "high"}


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-3.5-turbo-0301", 127),
        ("gpt-3.5-turbo-0613", 129),
        ("gpt-4-0613", 129),
        ("gpt-4o", 124),
        ("gpt-4o-mini", 124),
    ],
)
def test_a_chat_is_exactly_what_openai_billed(model, tokens):
    counted = count({"messages": JARGON}, model=model)

    assert (counted.p05, counted.p50, counted.p95) == (tokens, tokens, tokens)
    assert (counted.source, counted.kind) == ("tokenizer", "text")


@pytest.mark.parametrize(("model", "tokens"), [("gpt-4", 105), ("gpt-4o", 101)])
def test_tools_are_what_openai_billed_within_a_band(model, tokens):
    counted = count({"messages": WEATHER, "tools": [TOOL]}, model=model)

    assert counted.p50 == tokens
    assert counted.p05 < tokens < counted.p95
    assert counted.kind == "tools"


def test_functions_of_the_older_form_count_the_same():
    new = fields({"messages": WEATHER, "tools": [TOOL]})

    assert fields({"messages": WEATHER, "functions": [WEATHER_TOOL]}) == new


def test_a_model_whose_overheads_nobody_told_has_a_band():
    low, mid, high = fields({"messages": JARGON}, "gpt-5.1")

    assert low < mid == 124 < high


def test_content_may_come_in_parts():
    parts = [{"type": "text", "text": "Hello"}, {"type": "text", "text": " there"}]

    whole = fields({"messages": [{"role": "user", "content": "Hello there"}]})

    assert fields({"messages": [{"role": "user", "content": parts}]}) == whole


ELSEWHERE = {"url": "https://a.example/b.png"}


@pytest.mark.parametrize(
    ("name", "held", "kind"),
    [
        pytest.param("image_url", ELSEWHERE, "images", id="url"),
        pytest.param("image_url", "https://a.example/b.png", "images", id="bare-url"),
        pytest.param("input_audio", {"data": "QUJD" * 9000}, "files", id="audio"),
        pytest.param("file", {"file_id": "f"}, "files", id="file-id"),
        pytest.param("file", {"file_data": "QUJD"}, "files", id="file"),
    ],
)
def test_a_part_that_cannot_be_counted_is_a_band_and_named(name, held, kind):
    part = {"type": name, name: held}

    counted = count({"messages": [{"role": "user", "content": [part]}]}, model="gpt-4o")

    assert counted.p05 < counted.p50 < counted.p95
    assert counted.kind == kind
    assert counted.unknown == (f"messages[0].content[0].{name}",)


def test_an_image_adds_its_tiles():
    part = {"type": "image_url", "image_url": IMAGE}

    empty = fields({"messages": [{"role": "user", "content": []}]})

    assert fields({"messages": [{"role": "user", "content": [part]}]}) == tuple(
        number + 765 for number in empty
    )


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(
            {"tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}]}, id="call"
        ),
        pytest.param({"function_call": {"name": "f", "arguments": "{}"}}, id="old-call"),
        pytest.param({"tool_calls": ["nonsense"]}, id="odd-call"),
        pytest.param({"refusal": "I will not."}, id="refusal"),
        pytest.param({"audio": {"id": "audio_1"}}, id="audio"),
        pytest.param({"content": [{"type": "new", "value": 7}]}, id="unknown-part"),
        pytest.param({"content": {"odd": True}}, id="odd-content"),
    ],
)
def test_whatever_else_a_message_holds_adds_tokens(more):
    plain = {"role": "assistant", "content": None}

    assert fields({"messages": [plain | more]})[1] > fields({"messages": [plain]})[1]


def test_the_schema_of_the_answer_counts():
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": WEATHER_TOOL}}

    assert (
        fields({"messages": JARGON, "response_format": schema})[1]
        > fields({"messages": JARGON, "response_format": {"type": "text"}})[1] + 20
    )


def test_no_tool_to_choose_is_one_more():
    given = {"messages": WEATHER, "tools": [TOOL]}

    assert fields(given | {"tool_choice": "none"})[1] == fields(given)[1] + 1
