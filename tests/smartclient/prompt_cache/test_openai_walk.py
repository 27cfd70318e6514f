"""Chat and Responses: the order of the blocks, where marks may stand, what breaks them."""

from __future__ import annotations

import json

import pytest

from smartclient.prompt_cache.walk import walk
from tests.smartclient.prompt_cache.payloads import chat, responses, text

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "done"}


def read_chat(*turns, **fields):
    found = walk(chat(*turns, **fields), endpoint="openai.chat")
    assert found is not None
    return found


def read(*items, **fields):
    found = walk(responses(*items, **fields), endpoint="openai.responses")
    assert found is not None
    return found


def point(value, kind="text", **mark):
    return {**text(value, kind=kind), "prompt_cache_breakpoint": {"mode": "explicit", **mark}}


def test_tools_and_the_first_instructions_come_before_the_conversation():
    found = read_chat(
        ("system", "a"), ("developer", "b"), ("user", "c"), ("system", "d"), tools=[{"x": 1}]
    )

    assert [block.tier for block in found.blocks] == ["tools", *["system"] * 2, *["messages"] * 2]


def test_instructions_stand_before_the_input_and_cannot_be_marked():
    found = read({"role": "developer", "content": "b"}, instructions="a")

    assert [block.path for block in found.blocks] == [("instructions",), ("input", 0, "content")]
    assert [block.is_markable for block in found.blocks] == [False, True]
    assert {block.tier for block in found.blocks} == {"system"}


def test_an_input_may_be_one_text():
    (block,) = read(input="hi").blocks

    assert (block.path, block.is_markable) == (("input",), True)
    assert json.loads(block.data) == {"role": "user", "type": "input_text", "text": "hi"}


def test_a_message_tells_its_name_once():
    payload = {"messages": [{"role": "user", "name": "ann", "content": [text("a"), text("b")]}]}

    found = walk(payload, endpoint="openai.chat")

    assert [json.loads(block.data).get("name") for block in found.blocks] == ["ann", None]


def test_every_call_of_a_tool_is_a_block():
    turn = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL, CALL]}

    found = walk({"messages": [turn]}, endpoint="openai.chat")

    assert [block.path for block in found.blocks] == [
        ("messages", 0, "tool_calls", i) for i in (0, 1)
    ]
    assert not any(block.is_markable for block in found.blocks)


def test_a_message_without_content_is_a_block():
    found = read_chat(("assistant", None))

    assert json.loads(found.blocks[0].data) == {"role": "assistant"}


def test_items_that_are_no_messages_are_blocks_as_they_are():
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}

    found = read({"type": "reasoning", "encrypted_content": "x"}, call, OUTPUT)

    assert [block.path for block in found.blocks] == [
        ("input", 0),
        ("input", 1),
        ("input", 2, "output"),
    ]
    assert [block.is_markable for block in found.blocks] == [False, False, True]
    assert json.loads(found.blocks[1].data) == call


def test_every_block_has_a_position_of_its_own():
    found = read_chat(("tool", "a"), ("tool", "b"), ("tool", [text("c"), text("d")]))

    assert [block.position for block in found.blocks] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("role", "part", "can"),
    [
        pytest.param("user", {"type": "image_url"}, True, id="image"),
        pytest.param("user", {"type": "file"}, True, id="file"),
        pytest.param("tool", text("x"), True, id="tool"),
        pytest.param("system", {"type": "image_url"}, False, id="image-for-the-system"),
        pytest.param("user", text(""), False, id="empty"),
        pytest.param("user", {"type": "refusal"}, False, id="refusal"),
        pytest.param("assistant", text("x"), False, id="the-models-own"),
        pytest.param("function", text("x"), False, id="of-old"),
        pytest.param("user", {"type": {}}, False, id="odd-type"),
    ],
)
def test_which_parts_of_chat_can_be_marked(role, part, can):
    assert read_chat((role, [part])).blocks[0].is_markable is can


@pytest.mark.parametrize(
    ("item", "can"),
    [
        pytest.param({"role": "user", "content": [{"type": "input_file"}]}, True, id="file"),
        pytest.param({**OUTPUT, "output": [text("x", kind="input_text")]}, True, id="result"),
        pytest.param({"role": "user", "content": [text("x")]}, False, id="type-of-chat"),
        pytest.param({"role": "assistant", "content": "x"}, False, id="the-models-own"),
        pytest.param({**OUTPUT, "type": "computer_call_output"}, False, id="other-result"),
    ],
)
def test_which_parts_of_responses_can_be_marked(item, can):
    assert read(item).blocks[0].is_markable is can


@pytest.mark.parametrize(
    ("part", "options", "ttl"),
    [
        pytest.param(point("x"), None, "30m", id="default"),
        pytest.param(point("x"), {"ttl": "12h"}, "12h", id="of-the-request"),
        pytest.param(point("x", ttl="12h"), None, "12h", id="own"),
        pytest.param({**text("x"), "prompt_cache_breakpoint": None}, None, None, id="null"),
        pytest.param({**text("x"), "prompt_cache_breakpoint": True}, None, "?", id="odd"),
    ],
)
def test_the_callers_marks_are_read_with_their_lifetimes(part, options, ttl):
    found = read_chat(("user", [part]), prompt_cache_options=options)

    assert (found.blocks[0].mark, found.own_marks) == (ttl, int(ttl is not None))


def test_a_mark_is_no_part_of_the_prompt():
    assert (
        read_chat(("user", [point("x")])).blocks[0].prefix
        == read_chat(("user", "x")).blocks[0].prefix
    )


@pytest.mark.parametrize(
    ("options", "marks"),
    [(None, 3), ({"mode": "implicit"}, 3), ({"mode": "explicit"}, 4), ({"mode": []}, 3)],
    ids=["default", "implicit", "explicit", "odd"],
)
def test_the_providers_own_mark_takes_one_of_four(options, marks):
    assert read_chat(("user", "x"), prompt_cache_options=options).max_marks == marks


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        pytest.param(
            {"response_format": {"type": "text"}}, "text_format", {"type": "text"}, id="chat"
        ),
        pytest.param(
            {"text": {"format": {"type": "text"}}}, "text_format", {"type": "text"}, id="responses"
        ),
        pytest.param({"reasoning": {"effort": "low"}}, "reasoning_effort", "low", id="effort"),
        pytest.param({"verbosity": "low"}, "verbosity", "low", id="verbosity"),
        pytest.param({"service_tier": "flex"}, "service_tier", "flex", id="tier"),
        pytest.param({"parallel_tool_calls": False}, "parallel_tool_calls", False, id="parallel"),
        pytest.param({"prompt_cache_key": "k"}, "prompt_cache_key", "k", id="key"),
    ],
)
def test_a_parameter_breaks_everything(fields, name, value):
    assert json.loads(read(**fields).params["tools"][name]) == value


def test_a_choice_of_tools_breaks_nothing():
    assert read(tool_choice="none").params == read().params


def test_functions_of_old_are_tools():
    found = walk({"messages": [], "functions": [{"name": "f"}]}, endpoint="openai.chat")

    assert [(block.tier, block.path) for block in found.blocks] == [("tools", ("functions", 0))]


def test_without_input_there_is_a_prompt_all_the_same():
    assert walk({"prompt": {"id": "p"}}, endpoint="openai.responses").params["tools"]["prompt"]
    assert walk({"input": 5}, endpoint="openai.responses") is None


def test_where_the_instructions_end_is_known_after_taking_over():
    before = read_chat(("system", "a"), ("user", "b"))

    found = walk(
        chat(("system", "a"), ("user", "b"), ("system", "c")), endpoint="openai.chat", before=before
    )

    assert [block.tier for block in found.blocks] == ["system", "messages", "messages"]
