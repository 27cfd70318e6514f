"""What holds for the walk of any payload, whatever the format."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient._call import Headers
from smartclient.prompt_cache import CacheHints
from smartclient.prompt_cache.hinting import Hinter
from smartclient.prompt_cache.walk import fingerprints, walk
from tests.smartclient.prompt_cache.payloads import (
    ENDPOINTS,
    any_payload,
    chat,
    junk,
    messages,
    responses,
    text,
)


@given(st.sampled_from(ENDPOINTS), junk)
def test_no_payload_is_too_odd(endpoint, payload):
    found = walk(payload, endpoint=endpoint)

    assert found is None or found.endpoint == endpoint


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"messages": "hi"}, id="text-for-messages"),
        pytest.param({"messages": None}, id="null"),
        pytest.param({}, id="nothing"),
        pytest.param({"messages": [{"role": "user", "content": object()}]}, id="no-json"),
        pytest.param({"messages": [{"role": "user", "content": "\ud800"}]}, id="half-a-surrogate"),
        pytest.param([], id="no-object"),
    ],
)
def test_what_has_no_known_shape_or_cannot_be_sent_has_no_walk(payload):
    assert walk(payload, endpoint="anthropic.messages") is None
    assert walk(payload, endpoint="openai.chat") is None


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("anthropic", r"not 'anthropic'; did you mean 'anthropic.messages'\?"),
        ("responses", r"did you mean 'openai.responses'\?"),
        ("openai.chats", r"did you mean 'openai.chat'\?"),
        ("cohere", "one of anthropic.messages, openai.chat, openai.responses, not 'cohere'$"),
        (None, "not None$"),
    ],
)
def test_a_format_that_nobody_can_read_is_told_where_it_is_given(endpoint, told):
    with pytest.raises(ValueError, match=told):
        walk(messages("hi"), endpoint=endpoint)


def test_hints_leave_a_format_alone_that_only_an_extension_knows():
    hinter = Hinter(CacheHints())

    known = {"model": "m", "scope": (), "headers": (), "facts": None, "now": 0.0}
    assert hinter.look(messages("hi"), endpoint="cohere.chat", **known) is None


def test_a_payload_that_holds_itself_has_no_walk():
    payload = messages("hi")
    payload["messages"].append(payload["messages"])

    assert walk(payload, endpoint="anthropic.messages") is None


@given(any_payload, st.data())
def test_an_earlier_walk_changes_nothing(drawn, data):
    """Only what is the same from the beginning on is taken over, whatever differs later."""
    endpoint, payload = drawn
    earlier = copy.deepcopy(payload)
    name = "input" if endpoint == "openai.responses" else "messages"
    if isinstance(earlier[name], list) and earlier[name]:
        number = data.draw(st.integers(0, len(earlier[name]) - 1))
        changes = {
            "cut": lambda: earlier[name].__delitem__(slice(number, None)),
            "dropped": lambda: earlier[name].pop(number),
            "other": lambda: earlier[name].__setitem__(number, {"role": "user", "content": "?"}),
            "marked": lambda: earlier.update(_with_mark(earlier, name, number)),
        }
        changes[data.draw(st.sampled_from(sorted(changes)))]()
    before = walk(earlier, endpoint=endpoint)

    assert walk(payload, endpoint=endpoint, before=before) == walk(payload, endpoint=endpoint)


def _with_mark(payload, name, number):
    """The same prompt, with one text written out and marked."""
    turns = list(payload[name])
    content = turns[number].get("content")
    if isinstance(content, str):
        part = {**text(content), "cache_control": {"type": "ephemeral"}}
        turns[number] = {**turns[number], "content": [part]}
    return {name: turns}


@given(any_payload, st.lists(any_payload, max_size=2))
def test_no_other_walks_change_anything(drawn, others):
    endpoint, payload = drawn
    before = [walk(other, endpoint=name) for name, other in others]

    assert walk(payload, endpoint=endpoint, before=before) == walk(payload, endpoint=endpoint)


def test_blocks_of_an_earlier_walk_are_taken_over_not_made_again():
    before = walk(messages("one", "two"), endpoint="anthropic.messages")

    found = walk(messages("one", "two", "three"), endpoint="anthropic.messages", before=before)

    assert [a is b for a, b in zip(found.blocks, before.blocks, strict=False)] == [True, True]


def test_of_several_earlier_walks_the_one_that_goes_furthest_counts():
    turns = [["one", "two", "3"], ["one", "two", "three", "four"], ["one", "2"], ["1"]]
    before = [walk(messages(*one), endpoint="anthropic.messages") for one in turns]

    found = walk(
        messages("one", "two", "three", "four", "five"),
        endpoint="anthropic.messages",
        before=before,
    )

    known = {id(block) for one in before for block in one.blocks}
    assert [id(block) in known for block in found.blocks] == [True] * 4 + [False]


def test_a_moved_mark_leaves_what_follows_to_be_taken_over():
    before = walk(messages([text("one", "5m")], "two"), endpoint="anthropic.messages")

    found = walk(messages([text("one")], "two"), endpoint="anthropic.messages", before=before)

    assert found.blocks[1] is before.blocks[1]


def test_a_marks_default_lifetime_is_no_others():
    """The same bytes mean another mark."""
    part = {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}
    before = walk(chat(("user", [part])), endpoint="openai.chat")

    payload = chat(("user", [part]), prompt_cache_options={"ttl": "12h"})

    assert walk(payload, endpoint="openai.chat", before=before).blocks[0].mark == "12h"


def test_what_the_caller_changes_later_does_not_reach_it():
    payload = messages([text("one")])
    found = walk(payload, endpoint="anthropic.messages")

    payload["messages"][0]["content"][0]["text"] = "two"

    assert json.loads(found.blocks[0].data)["text"] == "one"


@pytest.mark.parametrize(
    ("endpoint", "one", "other"),
    [
        pytest.param("anthropic.messages", messages("x"), messages("y"), id="text"),
        pytest.param(
            "anthropic.messages", messages("x", "y"), messages(None, "x", "y"), id="roles-swapped"
        ),
        pytest.param(
            "anthropic.messages",
            messages(tools=[{"name": "x", "description": "y"}]),
            messages(tools=[{"description": "y", "name": "x"}]),
            id="order-of-keys",
        ),
        pytest.param("openai.chat", chat(("user", "x")), chat(("system", "x")), id="role"),
        pytest.param(
            "openai.chat",
            {"messages": [{"role": "user", "content": "x", "name": "a"}]},
            {"messages": [{"role": "user", "content": "x", "name": "b"}]},
            id="name",
        ),
        pytest.param(
            "openai.chat", chat(("user", "x")), chat(("user", [text("x"), text("")])), id="parts"
        ),
        pytest.param(
            "openai.responses",
            responses({"type": "function_call_output", "call_id": "a", "output": "x"}),
            responses({"type": "function_call_output", "call_id": "b", "output": "x"}),
            id="call-id",
        ),
    ],
)
def test_whatever_the_model_reads_changes_the_prefix(endpoint, one, other):
    first, second = walk(one, endpoint=endpoint), walk(other, endpoint=endpoint)

    assert first.blocks[-1].prefix != second.blocks[-1].prefix


@pytest.mark.parametrize(
    ("endpoint", "one", "other"),
    [
        pytest.param("anthropic.messages", messages("x"), messages([text("x")]), id="messages"),
        pytest.param(
            "anthropic.messages",
            messages("x", system="s"),
            messages("x", system=[text("s")]),
            id="system",
        ),
        pytest.param("openai.chat", chat(("user", "x")), chat(("user", [text("x")])), id="chat"),
        pytest.param(
            "openai.responses",
            responses(input="x"),
            responses({"role": "user", "content": [text("x", kind="input_text")]}),
            id="responses",
        ),
        pytest.param(
            "openai.responses",
            responses({"role": "user", "content": "x"}),
            responses(
                {
                    "type": "message",
                    "role": "user",
                    "content": "x",
                    "id": "1",
                    "status": "completed",
                }
            ),
            id="message-as-it-came",
        ),
    ],
)
def test_another_way_to_say_the_same_has_the_same_prefix(endpoint, one, other):
    first, second = walk(one, endpoint=endpoint), walk(other, endpoint=endpoint)

    assert [a.prefix for a in first.blocks] == [b.prefix for b in second.blocks]


@given(any_payload)
def test_ends_add_up_and_positions_never_fall(drawn):
    blocks = walk(drawn[1], endpoint=drawn[0]).blocks
    lengths = [len(block.data) for block in blocks]

    assert [block.end for block in blocks] == [sum(lengths[: i + 1]) for i in range(len(blocks))]
    assert [b.position for b in blocks] == sorted(b.position for b in blocks)


def test_the_model_may_stand_in_the_url():
    payload = {"messages": [], "anthropic_version": "vertex-2023-10-16"}

    assert (
        walk(payload, endpoint="anthropic.messages", model="claude-opus-5").model == "claude-opus-5"
    )


class TestFingerprints:
    def of(self, headers=None, **fields):
        return fingerprints(
            walk(messages("x", **fields), endpoint="anthropic.messages", headers=headers)
        )

    @pytest.mark.parametrize(
        ("fields", "kept"),
        [
            pytest.param({"model": "claude-sonnet-5"}, [], id="model"),
            pytest.param({"speed": "fast"}, ["tools"], id="speed"),
            pytest.param({"tool_choice": {"type": "any"}}, ["tools", "system"], id="tool-choice"),
            pytest.param(
                {"max_tokens": 5, "temperature": 1}, ["tools", "system", "messages"], id="others"
            ),
        ],
    )
    def test_a_change_breaks_its_own_tier_and_those_after_it(self, fields, kept):
        ordinary, changed = self.of(), self.of(**fields)

        assert [tier for tier in ordinary if ordinary[tier] == changed[tier]] == kept

    def test_headers_come_as_a_mapping_or_in_pairs(self):
        beta = {"Anthropic-Beta": "a"}

        assert self.of(beta) == self.of(Headers(beta)) != self.of()

    def test_parameters_that_follow_each_other_are_told_apart(self):
        one = self.of(thinking={"type": "x"}, tool_choice=None)

        assert one != self.of(tool_choice={"type": "x"})
