from __future__ import annotations

import json

import pytest

from server_reference.api.anthropic_messages import read_request
from server_reference.api.chat import Tool, ToolChoice
from server_reference.api.errors import ApiError

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "at", "input_schema": CITY}
ASKED = {"role": "user", "content": "Rome?"}
USE = {"type": "tool_use", "id": "t1", "name": "at", "input": {"city": "Rome"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "Sun"}


def read(**fields):
    ordinary = {"model": "tiny", "max_tokens": 5, "messages": [ASKED]}
    return read_request(json.dumps(ordinary | fields).encode())


def turn(role, *blocks):
    return {"role": role, "content": list(blocks)}


def test_a_tool_is_read():
    tool = {**TOOL, "type": "custom", "description": "Where.", "cache_control": {"type": "x"}}

    (request,) = [read(tools=[tool, {**TOOL, "name": "b", "strict": True}])]

    assert request.tools == (
        Tool(name="at", description="Where.", parameters=CITY),
        Tool(name="b", parameters=CITY, strict=True),
    )


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        pytest.param(None, ToolChoice(), id="null"),
        pytest.param({"type": "auto"}, ToolChoice(), id="auto"),
        pytest.param({"type": "none"}, ToolChoice(mode="none"), id="none"),
        pytest.param({"type": "any"}, ToolChoice(mode="required"), id="any"),
        pytest.param(
            {"type": "any", "disable_parallel_tool_use": True},
            ToolChoice(mode="required", parallel=False),
            id="any-one",
        ),
        pytest.param(
            {"type": "tool", "name": "at"},
            ToolChoice(mode="required", names=("at",), parallel=False),
            id="tool",
        ),
    ],
)
def test_a_choice_is_read(given, choice):
    assert read(tools=[TOOL], tool_choice=given).tool_choice == choice


def test_calls_and_results_are_read():
    text = {"type": "text", "text": "And then?"}
    failed = {**RESULT, "tool_use_id": "t2", "is_error": True}
    messages = [
        ASKED,
        turn("assistant", {"type": "text", "text": "Let me look."}, USE, {**USE, "id": "t2"}),
        turn("user", RESULT, failed, text),
    ]

    _, assistant, *others = read(messages=messages).messages

    called = {"name": "at", "arguments": {"city": "Rome"}}
    assert assistant["content"] == "Let me look."
    assert assistant["tool_calls"] == [
        {"id": id, "type": "function", "function": called} for id in ("t1", "t2")
    ]
    assert others == [
        {"role": "tool", "tool_call_id": "t1", "name": "at", "content": "Sun"},
        {"role": "tool", "tool_call_id": "t2", "name": "at", "content": "Error: Sun"},
        {"role": "user", "content": "And then?"},
    ]


@pytest.mark.parametrize(
    "content", [None, [], [{"type": "text", "text": ""}]], ids=["null", "none", "empty"]
)
def test_a_result_may_be_empty(content):
    messages = [ASKED, turn("assistant", USE), turn("user", {**RESULT, "content": content})]

    assert read(messages=messages).messages[-1]["content"] == ""


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param({"tools": [{"name": "a"}]}, "input_schema is required", id="no-schema"),
        pytest.param(
            {"tools": [{"name": "a", "input_schema": {}}]}, "must have the type", id="no-type"
        ),
        pytest.param(
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            r"tools\[0\].type is not implemented",
            id="built-in",
        ),
        pytest.param({"tools": [TOOL, TOOL]}, "two of the name 'at'", id="twice"),
        pytest.param({"tool_choice": {"type": "any"}}, "needs tools", id="nothing-to-choose"),
        pytest.param(
            {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "b"}},
            "names 'b', which is none",
            id="unknown-tool",
        ),
        pytest.param({"tool_choice": "auto"}, "tool_choice must be an object", id="others-form"),
        pytest.param(
            {"messages": [ASKED, turn("assistant", USE)]}, "no result for the call 't1'", id="open"
        ),
        pytest.param(
            {"messages": [turn("user", RESULT)]}, "'t1', which is no call", id="result-of-nothing"
        ),
        pytest.param(
            {
                "messages": [
                    ASKED,
                    turn("assistant", USE),
                    turn("user", {"type": "text", "text": "a"}, RESULT),
                ]
            },
            "must come before the turn's text",
            id="text-first",
        ),
        pytest.param(
            {"messages": [turn("user", USE)]}, "'tool_use' is not implemented", id="users-call"
        ),
        pytest.param(
            {"output_format": {"type": "json_object"}}, "must be 'json_schema'", id="format"
        ),
        pytest.param(
            {
                "output_format": {"type": "json_schema", "schema": CITY},
                "output_config": {"format": {"type": "json_schema", "schema": CITY}},
            },
            "may not stand beside output_config.format",
            id="both-formats",
        ),
        pytest.param(
            {
                "output_format": {"type": "json_schema", "schema": CITY},
                "messages": [ASKED, {"role": "assistant", "content": "{"}],
            },
            "may not end with the answer's start",
            id="format-and-prefill",
        ),
    ],
)
def test_what_does_not_fit_is_refused(fields, why):
    with pytest.raises(ApiError, match=why):
        read(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"output_format": {"type": "json_schema", "schema": CITY}}, id="older"),
        pytest.param(
            {"output_config": {"format": {"type": "json_schema", "schema": CITY}}}, id="newer"
        ),
    ],
)
def test_a_format_is_read(fields):
    assert json.loads(read(**fields).output_schema) == CITY
