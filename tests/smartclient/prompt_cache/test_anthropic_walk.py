"""Messages: the order of the blocks, their positions, where marks may stand, what breaks them."""

from __future__ import annotations

import json

import pytest

from smartclient.prompt_cache.walk import walk
from smartclient.wire.anthropic_types import Message
from tests.smartclient.prompt_cache.payloads import agent_turn, messages, text

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}}


def read(payload, **given):
    found = walk(payload, endpoint="anthropic.messages", **given)
    assert found is not None
    return found


def tool(name="t", **fields):
    return {"name": name, "input_schema": {}, **fields}


def test_tools_come_first_and_messages_last():
    payload = messages("hi", ["odd", text("yes")], system=[text("a"), text("b")], tools=[tool()])

    paths = [(block.tier, *block.path) for block in read(payload).blocks]

    assert paths == [
        ("tools", "tools", 0),
        ("system", "system", 0),
        ("system", "system", 1),
        ("messages", "messages", 0, "content"),
        ("messages", "messages", 1, "content", 0),
        ("messages", "messages", 1, "content", 1),
    ]


def test_web_search_stands_in_the_system_prompt():
    """Toggling it keeps the cached tools."""
    with_search = read(messages("hi", tools=[SEARCH, tool()], system="s"))
    without = read(messages("hi", tools=[tool()], system="s"))

    assert [block.path for block in with_search.blocks[:2]] == [("tools", 1), ("tools", 0)]
    assert with_search.blocks[0].prefix == without.blocks[0].prefix
    assert json.loads(with_search.params["system"]["web_search"]) == [SEARCH]
    assert not with_search.blocks[1].is_markable


def test_a_deferred_tool_is_no_part_of_the_prefix():
    found = read(messages("hi", tools=[tool("later", defer_loading=True), tool()]))

    assert [block.path for block in found.blocks] == [("tools", 1), ("messages", 0, "content")]


def test_what_a_message_holds_begins_with_its_role():
    found = read(messages("hi", [text("yes", "5m")]))

    assert [json.loads(block.data) for block in found.blocks] == [
        {"role": "user", "type": "text", "text": "hi"},
        {"role": "assistant", "type": "text", "text": "yes"},
    ]


def test_the_keys_of_a_block_keep_their_order():
    found = read(
        messages([{"type": "tool_result", "tool_use_id": "t", "content": {"b": 1, "a": 2}}])
    )

    assert found.blocks[0].data.endswith(b'"content":{"b":1,"a":2}}')


def test_runs_of_calls_and_of_results_are_one_position_each():
    turns = [*agent_turn("a", 3), *agent_turn("b", 2)]

    found = read({"messages": [{"role": "user", "content": "go"}, *turns]})

    assert [block.position for block in found.blocks] == [0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4]


def test_a_run_goes_on_over_the_end_of_a_message():
    results = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]

    found = read(messages(results, None, results, [text("go on")]))

    assert [block.position for block in found.blocks] == [0, 0, 1]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "thinking", "thinking": "hm", "signature": "s"}, id="thinking"),
        pytest.param({"type": "redacted_thinking", "data": "x"}, id="redacted"),
        pytest.param(text(""), id="empty"),
        pytest.param(text(" \n"), id="blank"),
        pytest.param({"type": "text", "text": None}, id="null"),
        pytest.param({"type": "fallback"}, id="unknown"),
        pytest.param({}, id="nothing"),
        pytest.param({"type": ["text"]}, id="odd-type"),
    ],
)
def test_these_cannot_be_marked(block):
    assert not read(messages([block])).blocks[0].is_markable


@pytest.mark.parametrize(
    "block",
    [text("x"), IMAGE, {"type": "document"}, *(agent_turn("a")[i]["content"][0] for i in (0, 1))],
    ids=lambda block: block["type"],
)
def test_these_can(block):
    assert read(messages([block])).blocks[0].is_markable


def test_the_callers_marks_are_read_with_their_lifetimes():
    payload = messages(
        [text("a", "1h"), text("b", "5m"), text("c")],
        tools=[tool(cache_control={"type": "ephemeral"})],
        cache_control={"type": "ephemeral", "ttl": "1h"},
    )

    found = read(payload)

    assert [block.mark for block in found.blocks] == ["5m", "1h", "5m", None]
    assert (found.own_marks, found.whole_mark) == (4, "1h")


def test_marks_inside_a_result_are_counted_and_left_out():
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("a", "1h"), "odd"]}

    found = read(messages([result]))

    assert found.blocks[0].inner_marks == ("1h",)
    assert found.own_marks == 1
    assert b"cache_control" not in found.blocks[0].data


def test_a_property_that_is_named_like_a_mark_is_kept():
    schema = {"properties": {"cache_control": {"type": "string"}}}

    assert (
        b"cache_control" in read(messages("hi", tools=[tool(input_schema=schema)])).blocks[0].data
    )


def test_a_null_mark_is_none_and_an_odd_one_has_no_lifetime():
    odd = [
        {**text("a"), "cache_control": mark}
        for mark in (None, 5, {"type": "x"}, {"type": "ephemeral", "ttl": 5})
    ]

    assert [block.mark for block in read(messages(odd)).blocks] == [None, "?", "?", "?"]


@pytest.mark.parametrize(
    ("fields", "tier", "name"),
    [
        pytest.param({"mcp_servers": [{"name": "m"}]}, "tools", "mcp_servers", id="mcp"),
        pytest.param({"speed": "fast"}, "system", "speed", id="speed"),
        pytest.param({"thinking": {"type": "adaptive"}}, "messages", "thinking", id="thinking"),
        pytest.param(
            {"output_config": {"effort": "low"}}, "messages", "output_config", id="effort"
        ),
        pytest.param({"context_management": {}}, "messages", "context_management", id="context"),
    ],
)
def test_a_parameter_is_told_with_the_tier_that_it_breaks(fields, tier, name):
    given = read(messages("hi", **fields)).params

    assert json.loads(given[tier][name]) == fields[name]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(IMAGE, id="image"),
        pytest.param(
            {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}, id="in-a-result"
        ),
    ],
)
def test_images_are_told_wherever_they_are(block):
    before = read(messages([block]))

    assert before.params["messages"]["images"] == b"true"
    assert read(messages([block], "x"), before=before).params["messages"]["images"] == b"true"
    assert "images" not in read(messages("hi"), before=before).params["messages"]


def test_citations_are_told_once_they_are_on():
    document = {"type": "document", "citations": {"enabled": True}}

    assert read(messages([document])).params["system"]["citations"] == b"true"
    assert "citations" not in read(messages([{**document, "citations": None}])).params["system"]


def test_beta_headers_are_a_set():
    one = read(messages("hi"), headers=[("anthropic-beta", "b,a"), ("Anthropic-Beta", " c,a ")])
    other = read(messages("hi"), headers={"anthropic-beta": "c, b, a"})

    assert one.params == other.params
    assert one.params["messages"]["anthropic-beta"] == b'["a","b","c"]'


def test_a_block_of_an_earlier_reply_is_what_it_says():
    block = b'{"type": "text", "text": "\\u00e4"}'
    answer = Message.from_json(b'{"role": "assistant", "content": [%b]}' % block)
    typed = [messages("hi", answer.content), {"messages": [messages("hi")["messages"][0], answer]}]

    plain = read(messages("hi", [text("ä")])).blocks

    assert [read(payload).blocks[1].prefix for payload in typed] == [plain[1].prefix] * 2
