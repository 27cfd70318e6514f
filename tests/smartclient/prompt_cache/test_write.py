"""Where marks go in a payload, and what of it is new."""

from __future__ import annotations

from smartclient.prompt_cache.blocks import Mark
from smartclient.prompt_cache.marks import marked
from smartclient.prompt_cache.walk import walk
from smartclient.wire.anthropic_types import Message
from smartclient.wire.encode import encode
from tests.smartclient.prompt_cache.payloads import agent_turn, chat, messages, responses, text

FIVE_MINUTES = {"type": "ephemeral"}
EXPLICIT = {"mode": "explicit"}


def put(payload, *marks, endpoint="anthropic.messages", **given):
    found = walk(payload, endpoint=endpoint)
    return marked(payload, found, [Mark(*mark) for mark in marks], **given)


def test_no_marks_change_nothing():
    payload = messages("a")

    assert put(payload) is payload


def test_marks_stand_on_tools_system_and_messages():
    payload = messages("hi", [text("yes")], system="s", tools=[{"name": "t"}])

    new = put(payload, (0, "1h"), (1, "5m"), (3, "5m"))

    assert new["tools"] == [{"name": "t", "cache_control": {**FIVE_MINUTES, "ttl": "1h"}}]
    assert new["system"] == [{**text("s"), "cache_control": FIVE_MINUTES}]
    assert new["messages"][1]["content"] == [{**text("yes"), "cache_control": FIVE_MINUTES}]


def test_every_text_before_the_last_mark_is_written_out():
    """So that it has the same shape wherever the mark moves to."""
    payload = messages("a", "b", "c", "d", system="s")

    new = put(payload, (3, "5m"))

    assert new["system"] == [text("s")]
    shapes = [type(message["content"]) for message in new["messages"]]
    assert shapes == [list, list, list, str]


def test_a_mark_of_the_caller_further_on_counts_as_the_last():
    new = put(messages("a", "b", [text("c", "5m")], "d"), (0, "5m"))

    assert [type(message["content"]) for message in new["messages"]] == [list, list, list, str]


def test_with_a_mark_on_the_whole_request_every_text_is_written_out():
    new = put(messages("a", "b", cache_control=FIVE_MINUTES), (0, "5m"))

    assert new["messages"][1]["content"] == [text("b")]


def test_a_text_has_the_same_bytes_in_every_later_request():
    turns = ["a", "b", "c", "d", "e"]

    sent = [put(messages(*turns[:n]), (n - 1, "5m"))["messages"] for n in (1, 3, 5)]

    without = [[{**m, "content": [text(m["content"][0]["text"])]} for m in one] for one in sent]
    assert encode(without[2][:3]) == encode(without[1])
    assert encode(without[1][:1]) == encode(without[0])


def test_an_empty_text_is_left_as_it_is():
    """As a block of its own it would be refused."""
    assert put(messages("a", "", "b"), (2, "5m"))["messages"][1]["content"] == ""


def test_what_does_not_change_is_shared():
    payload = messages("a", [text("b")], [text("c"), text("d")], tools=[{"name": "t"}])

    new = put(payload, (3, "5m"))

    assert new["tools"] is payload["tools"]
    assert new["messages"][1] is payload["messages"][1]
    assert new["messages"][2]["content"][1] is payload["messages"][2]["content"][1]


def test_two_marks_may_stand_in_one_message():
    new = put(messages([text("a"), text("b")]), (0, "5m"), (1, "5m"))

    assert [block["cache_control"] for block in new["messages"][0]["content"]] == [FIVE_MINUTES] * 2


def test_a_result_is_marked_outside():
    payload = {"messages": agent_turn("a")}

    new = put(payload, (1, "5m"))

    block = new["messages"][1]["content"][0]
    assert (block["content"], block["cache_control"]) == ("ok", FIVE_MINUTES)


def test_a_block_of_an_earlier_reply_can_be_marked():
    answer = Message.from_json(b'{"role": "assistant", "content": [{"type": "text", "text": "b"}]}')

    new = put({"messages": [*messages("a")["messages"], answer]}, (1, "5m"))

    assert b'{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}' in encode(new)


def test_tuples_are_lists():
    new = put({"messages": ({"role": "user", "content": (text("a"),)},)}, (0, "5m"))

    assert new["messages"][0]["content"][0]["cache_control"] == FIVE_MINUTES


def test_chat_has_breakpoints_on_parts():
    new = put(
        chat(("system", "s"), ("assistant", "x"), ("user", "u")), (2, "30m"), endpoint="openai.chat"
    )

    contents = [message["content"] for message in new["messages"]]
    assert contents == [[text("s")], "x", [{**text("u"), "prompt_cache_breakpoint": EXPLICIT}]]


def test_responses_has_them_in_messages_and_results():
    output = {"type": "function_call_output", "call_id": "c", "output": "done"}
    new = put(
        responses({"role": "user", "content": "u"}, output), (1, "12h"), endpoint="openai.responses"
    )

    part = text("done", kind="input_text")
    assert new["input"] == [
        {"role": "user", "content": [text("u", kind="input_text")]},
        {**output, "output": [{**part, "prompt_cache_breakpoint": {**EXPLICIT, "ttl": "12h"}}]},
    ]


def test_an_input_of_one_text_becomes_a_message():
    new = put(responses(input="u"), (0, "30m"), endpoint="openai.responses")

    part = {**text("u", kind="input_text"), "prompt_cache_breakpoint": EXPLICIT}
    assert new["input"] == [{"role": "user", "content": [part]}]


def test_the_lifetime_of_the_request_need_not_be_named():
    payload = responses(input="u", prompt_cache_options={"ttl": "12h"})

    new = put(payload, (0, "12h"), endpoint="openai.responses")

    assert new["input"][0]["content"][0]["prompt_cache_breakpoint"] == EXPLICIT


def test_the_providers_own_mark_is_turned_off_where_the_caller_left_it_open():
    def options(**fields):
        new = put(
            chat(("user", "u"), **fields), (0, "30m"), endpoint="openai.chat", explicit_only=True
        )
        return new["prompt_cache_options"]

    assert options() == EXPLICIT
    assert options(prompt_cache_options={"ttl": "30m"}) == {"ttl": "30m", **EXPLICIT}
    assert options(prompt_cache_options={"mode": "implicit"}) == {"mode": "implicit"}
