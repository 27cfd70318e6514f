"""Which messages of a conversation stand or fall together."""

from __future__ import annotations

import pytest

from smartclient.tokens.conversation import Group, grouped, read
from smartclient.wire.anthropic_types import Message
from tests.smartclient.tokens.conversations import FORMATS, built

USER, ANSWER = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}


def of(messages, format_="openai.chat", model="gpt-4o"):
    return read(messages, model=model, endpoint=format_, system=None, tools=None)


def members(messages, format_="openai.chat"):
    groups, _ = grouped(of(messages, format_))
    return [group.members for group in groups]


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        pytest.param("anthropic.messages", [[0], [1, 2], [3, 4], [5], [6]], id="anthropic"),
        pytest.param("openai.chat", [[0], [1, 2, 3], [4, 5], [6], [7]], id="chat"),
        pytest.param("openai.responses", [[0], [1, 2, 3, 4, 5], [6, 7, 8], [9], [10]], id="items"),
    ],
)
def test_parallel_calls_and_their_results_are_one_step(format_, expected):
    messages = built(format_, [(1, [(2, 1), (1, 1)], 1), (1, [], 1)])

    assert members(messages, format_) == expected


def test_messages_of_the_user_in_a_row_are_one_turn():
    assert members([USER, USER, ANSWER, USER]) == [[0, 1], [2], [3]]


def test_results_in_messages_of_their_own_stay_with_their_calls():
    calls, results = built("anthropic.messages", [(1, [(2, 1)], 0)])[1:]
    first, second = ({"role": "user", "content": [block]} for block in results["content"])

    assert members([USER, calls, first, second], "anthropic.messages") == [[0], [1, 2, 3]]


def test_a_request_ends_with_the_user_or_a_result():
    groups, _ = grouped(of(built("openai.chat", [(1, [(1, 1)], 1)], is_answered=True)))

    assert [group.is_sent for group in groups] == [True, True, False]


def test_an_orphaned_result_begins_nothing():
    orphan = {"role": "tool", "tool_call_id": "gone", "content": "x"}

    groups, _ = grouped(of([orphan, USER]))

    assert groups[0] == Group([0], is_turn=False, asks=False, is_sent=True)


def test_a_later_result_joins_all_since_its_call():
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": ""}

    assert members([USER, call, USER, result, ANSWER], "openai.responses") == [[0], [1, 2, 3], [4]]


def test_a_call_is_found_after_its_group_became_part_of_another():
    first, second = (
        {"type": "function_call", "call_id": one, "name": "look", "arguments": "{}"} for one in "ab"
    )
    late, later = ({"type": "function_call_output", "call_id": one, "output": ""} for one in "ab")
    items = [USER, first, USER, second, USER, late, ANSWER, USER, later]

    assert members(items, "openai.responses") == [[0], [1, 2, 3, 4, 5, 6, 7, 8]]


def test_calls_without_an_id_stand_with_the_results_behind_them():
    call = {"role": "assistant", "content": None, "function_call": {"name": "look"}}
    result = {"role": "function", "name": "look", "content": "found"}

    assert members([USER, call, result, USER, call, result]) == [[0], [1, 2], [3], [4, 5]]


@pytest.mark.parametrize(
    "item",
    [
        pytest.param({"type": "compaction", "encrypted_content": "x"}, id="compaction"),
        pytest.param({"role": "developer", "content": "x"}, id="developer"),
        pytest.param({"type": "message", "role": "system", "content": "x"}, id="system"),
    ],
)
def test_what_later_items_rest_on_is_fixed(item):
    assert grouped(of([USER, item, ANSWER], "openai.responses"))[1] == [1]


def test_approvals_belong_to_what_asked_for_them():
    asked = {"type": "mcp_approval_request", "id": "a", "name": "look"}
    given = {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}

    assert members([USER, asked, given], "openai.responses") == [[0], [1, 2]]


def test_values_of_ours_and_of_sdks_are_read():
    answer = Message.from_json(b'{"role": "assistant", "content": []}')

    assert members([USER, answer, "Hello"]) == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("messages", "model", "expected"),
    [
        pytest.param([USER], "gpt-4o", "openai.chat", id="chat"),
        pytest.param(["Hi", USER], "gpt-4o", "openai.chat", id="bare"),
        pytest.param([{**USER, "content": [{"type": []}]}], "gpt-4o", "openai.chat", id="odd"),
        pytest.param([USER], "claude-opus-5", "anthropic.messages", id="claude"),
        pytest.param([{"type": "message", **USER}], "gpt-4o", "openai.responses", id="item"),
        pytest.param(
            [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            "gpt-4o",
            "openai.responses",
            id="part",
        ),
    ],
)
def test_a_format_is_told_from_messages_alone(messages, model, expected):
    assert of(messages, None, model).endpoint == expected


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("message", [None, 7, [], {}, {"role": None}, {"content": 3}])
def test_nonsense_is_grouped_somehow(format_, message):
    groups, fixed = grouped(of([USER, message, ANSWER], format_))

    assert sorted([*fixed, *(place for g in groups for place in g.members)]) == [0, 1, 2]
