"""Responses requests."""

from __future__ import annotations

import pytest

from smartclient.tokens import count
from tests.smartclient.tokens.images import base64, png
from tests.smartclient.tokens.samples import JARGON, WEATHER_TOOL, fields

MESSAGE = {"role": "user", "content": "What's the weather like in San Francisco?"}
IMAGE = f"data:image/png;base64,{base64(png(1024, 1024))}"


def of(item, **more):
    return count({"input": [item], **more}, model="gpt-4o")


def test_a_text_is_a_message_of_the_user():
    assert fields({"input": MESSAGE["content"]}) == fields({"input": [MESSAGE]})


def test_messages_count_as_in_a_chat_with_a_band():
    low, mid, high = fields({"input": JARGON})

    chat = fields({"messages": [{"role": m["role"], "content": m["content"]} for m in JARGON]})
    assert (low < mid < high, mid) == (True, chat[1])


def test_instructions_are_one_message_more():
    more = fields({"input": [MESSAGE], "instructions": "Be brief."})

    assert more == fields({"input": [{"role": "developer", "content": "Be brief."}, MESSAGE]})


def test_a_function_counts_as_in_a_chat():
    flat, wrapped = {"type": "function", **WEATHER_TOOL}, {"function": WEATHER_TOOL}

    in_chat = fields({"messages": [MESSAGE], "tools": [wrapped]})[1]

    assert fields({"input": [MESSAGE], "tools": [flat]})[1] == in_chat


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        pytest.param(
            {"type": "function_call", "name": "f", "arguments": '{"a": 1}'}, "tools", id="call"
        ),
        pytest.param(
            {"type": "custom_tool_call", "name": "f", "input": "go"}, "tools", id="custom"
        ),
        pytest.param({"type": "function_call_output", "output": "4"}, "tools", id="output"),
        pytest.param(
            {"type": "function_call_output", "output": [{"type": "input_text", "text": "4"}]},
            "tools",
            id="output-in-parts",
        ),
        pytest.param({"type": "web_search_call", "status": "completed"}, "text", id="other"),
        pytest.param({"content": [{"type": "refusal", "refusal": "No."}]}, "text", id="refusal"),
        pytest.param({"content": [{"type": "new", "x": 1}]}, "text", id="unknown-part"),
        pytest.param("just text", "text", id="text"),
        pytest.param(7, "text", id="nonsense"),
    ],
)
def test_an_item_adds_tokens(item, kind):
    counted = of(item)

    assert counted.p50 > fields({"input": []})[1]
    assert (counted.kind, counted.unknown) == (kind, ())


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param(
            {"content": [{"type": "input_image", "image_url": "https://a.example/b"}]},
            "input[0].content[0]",
            id="image",
        ),
        pytest.param(
            {"content": [{"type": "input_file", "file_id": "f"}]}, "input[0].content[0]", id="file"
        ),
        pytest.param(
            {"content": [{"type": "input_audio", "input_audio": {"data": "QUJD"}}]},
            "input[0].content[0]",
            id="audio",
        ),
        pytest.param({"type": "item_reference", "id": "i"}, "input[0]", id="reference"),
        pytest.param(
            {"type": "reasoning", "encrypted_content": "x" * 800},
            "input[0].encrypted_content",
            id="sealed-reasoning",
        ),
    ],
)
def test_what_cannot_be_counted_is_a_band_and_named(item, path):
    counted = of(item)

    assert counted.unknown == (path,)
    assert counted.p95 - counted.p05 > 50 or "audio" in str(item)


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_what_the_provider_keeps_is_a_wide_band(name):
    counted = of(MESSAGE, **{name: "x_1"})

    assert counted.unknown == (name,)
    assert counted.p95 > 100 * counted.p05


def test_tools_that_the_provider_runs_are_a_band():
    counted = of(MESSAGE, tools=[{"type": "web_search"}])

    assert (counted.kind, counted.unknown) == ("tools", ("tools[0]",))


def test_an_image_adds_its_tiles():
    part = {"type": "input_image", "image_url": IMAGE, "detail": "high"}

    assert of({"content": [part]}).p50 == of({"content": []}).p50 + 765


def test_reasoning_may_be_dropped():
    counted = of({"type": "reasoning", "content": [{"text": "so " * 500}]})

    assert counted.p05 < 50 < 500 < counted.p50


def test_the_schema_of_the_answer_counts():
    wanted = {"format": {"type": "json_schema", "schema": WEATHER_TOOL["parameters"]}}

    assert of(MESSAGE, text=wanted).p50 > of(MESSAGE).p50 + 20
