"""Which marks a request may carry, beside those that its caller set."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.prompt_cache.blocks import Mark
from smartclient.prompt_cache.marks import (
    allows_explicit_only,
    cache_key,
    check_own_marks,
    legal,
    marked,
)
from smartclient.prompt_cache.walk import walk
from tests.smartclient.prompt_cache.payloads import (
    ENDPOINTS,
    any_payload,
    chat,
    junk,
    marks_in,
    messages,
    plain,
    responses,
    text,
)

TTLS = {"anthropic.messages": ["5m", "1h"], "openai.chat": ["30m"]}
TTLS["openai.responses"] = ["30m", "12h"]


def read(payload, endpoint="anthropic.messages"):
    return walk(payload, endpoint=endpoint)


def wanted(data, found, endpoint):
    """Any marks at all, on any block."""
    blocks = st.integers(-1, len(found.blocks))
    marks = st.lists(st.builds(Mark, blocks, st.sampled_from([*TTLS[endpoint], "2h"])), max_size=9)
    return data.draw(marks)


class TestLegal:
    def left(self, payload, *marks, endpoint="anthropic.messages", **given):
        found = legal(read(payload, endpoint), [Mark(*mark) for mark in marks], **given)
        return [(mark.block, mark.ttl) for mark in found]

    def test_all_of_four_come_back_in_their_order(self):
        payload = messages("a", "b", "c", "d")

        assert self.left(payload, (3, "5m"), (1, "5m"), (0, "1h"), (2, "5m")) == [
            (0, "1h"),
            (1, "5m"),
            (2, "5m"),
            (3, "5m"),
        ]

    def test_the_least_valuable_are_dropped(self):
        payload = messages("a", "b", "c", "d", "e")

        left = self.left(payload, (4, "5m"), (3, "5m"), (2, "5m"), (1, "5m"), (0, "5m"))

        assert [block for block, _ in left] == [1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("own", "room"),
        [
            pytest.param({}, 4, id="none"),
            pytest.param({"system": [text("s", "5m")]}, 3, id="one"),
            pytest.param({"cache_control": {"type": "ephemeral"}}, 3, id="the-whole-request"),
            pytest.param({"system": [text("s", "5m")] * 4}, 0, id="four"),
            pytest.param({"system": [text("s", "5m")] * 5}, 0, id="too-many"),
            pytest.param({"system": [text("s", "2h")]}, 0, id="unknown-lifetime"),
        ],
    )
    def test_the_callers_marks_count(self, own, room):
        payload = messages(*"abcdefgh", **own)
        first = len(read(payload).blocks) - 7

        left = self.left(payload, *((first + i, "5m") for i in range(5)))

        assert len(left) == room

    def test_marks_inside_a_result_count_too(self):
        """Whether the provider counts them is not documented."""
        inner = [text("x", "5m")] * 3
        result = {"type": "tool_result", "tool_use_id": "t", "content": inner}

        assert len(self.left(messages([result], "b", "c", "d"), (1, "5m"), (2, "5m"))) == 1

    @pytest.mark.parametrize(
        ("marks", "left"),
        [
            pytest.param([(0, "5m"), (1, "1h")], [(0, "5m")], id="an-hour-after-five-minutes"),
            pytest.param([(1, "1h"), (0, "5m")], [(1, "1h")], id="the-more-valuable-stays"),
            pytest.param(
                [(0, "5m"), (1, "1h"), (1, "5m")], [(0, "5m"), (1, "5m")], id="second-best"
            ),
            pytest.param([(0, "5m"), (0, "5m")], [(0, "5m")], id="twice-the-same-block"),
            pytest.param([(0, "30m"), (0, "2h")], [], id="another-lifetime"),
            pytest.param([(-1, "5m"), (9, "5m")], [], id="no-such-block"),
            pytest.param([(2, "5m")], [], id="empty-text"),
        ],
    )
    def test_what_would_be_refused_is_dropped(self, marks, left):
        assert self.left(messages("a", "b", ""), *marks) == left

    def test_the_order_holds_against_the_callers_marks(self):
        payload = messages("a", [text("own", "5m")], "c")

        assert self.left(payload, (2, "1h"), (0, "1h")) == [(0, "1h")]
        assert self.left(messages("a", [text("own", "1h")], "c"), (0, "5m"), (2, "5m")) == [
            (2, "5m")
        ]

    def test_a_block_that_the_caller_marked_keeps_its_mark(self):
        assert self.left(messages([text("own", "1h")], "b"), (0, "1h")) == []

    def test_the_mark_on_the_whole_request_stands_at_its_end(self):
        hour = messages("a", "b", "", cache_control={"type": "ephemeral", "ttl": "1h"})

        assert self.left(hour, (1, "1h"), (0, "5m")) == []
        assert self.left(hour, (0, "1h")) == [(0, "1h")]

    @pytest.mark.parametrize(
        ("fields", "given", "room"),
        [
            pytest.param({}, {}, 3, id="implicit"),
            pytest.param({"prompt_cache_options": {"mode": "explicit"}}, {}, 4, id="explicit"),
            pytest.param({}, {"explicit_only": True}, 4, id="made-explicit"),
        ],
    )
    def test_openai_writes_four_its_own_included(self, fields, given, room):
        payload = chat(*[("user", "x")] * 6, **fields)
        marks = [(i, "30m") for i in range(6)]

        assert len(self.left(payload, *marks, endpoint="openai.chat", **given)) == room

    def test_chat_knows_half_an_hour_only(self):
        assert self.left(chat(("user", "x")), (0, "12h"), endpoint="openai.chat") == []
        payload = responses({"role": "user", "content": "x"})
        assert self.left(payload, (0, "12h"), endpoint="openai.responses") == [(0, "12h")]


class TestOwnMarks:
    @pytest.mark.parametrize(
        ("payload", "says"),
        [
            pytest.param(
                messages("hi", system=[text("s", "5m")] * 5),
                "at most 4 cache marks, and 5 blocks are marked (system[0], system[1]",
                id="five",
            ),
            pytest.param(
                messages("hi", system=[text("s", "5m")] * 4, cache_control={"type": "ephemeral"}),
                "4 blocks are marked, beside the one on the whole request",
                id="four-and-the-whole",
            ),
            pytest.param(
                messages([text("a", "1h")], system=[text("s", "5m")]),
                "the mark of 1h on messages[0].content[0] stands after the one of 5m on system[0]",
                id="order",
            ),
            pytest.param(
                messages([text("a", "1h")], cache_control={"type": "ephemeral"}),
                "marked with 5m and its last block, messages[0].content[0], with 1h",
                id="two-lifetimes-at-the-end",
            ),
            pytest.param(
                messages(
                    tools=[{"type": "web_search_1", "cache_control": {"type": "ephemeral"}}],
                    cache_control={"type": "ephemeral", "ttl": "1h"},
                ),
                "marked with 1h and its last block, tools[0], with 5m",
                id="a-search-tool-at-the-end",
            ),
            pytest.param(
                messages([text("a", "5m")], "b", cache_control={"type": "ephemeral", "ttl": "1h"}),
                "the mark of 1h on the whole request acts at its end",
                id="order-at-the-end",
            ),
            pytest.param(
                messages("hi", [text("", "5m")]),
                "messages[1].content[0] cannot be marked: its text is empty",
                id="empty",
            ),
            pytest.param(
                messages([{**text("", "5m"), "type": "thinking"}]),
                "block of thinking",
                id="thinking",
            ),
            pytest.param(
                messages("hi", tools=[{"defer_loading": True, "cache_control": {}}]),
                "tools[0] has defer_loading and cannot be marked",
                id="deferred",
            ),
        ],
    )
    def test_what_the_provider_refuses_is_told_before(self, payload, says):
        assert says in check_own_marks(read(payload))

    @pytest.mark.parametrize(
        "payload",
        [
            pytest.param(messages("hi"), id="none"),
            pytest.param(
                messages("hi", system=[text("s", "1h"), *[text("t", "5m")] * 3]), id="four"
            ),
            pytest.param(
                messages(
                    [text("a", "5m")],
                    system=[text("s", "5m")] * 3,
                    cache_control={"type": "ephemeral"},
                ),
                id="the-same-at-the-end",
            ),
            pytest.param(messages([text(" ", "5m")]), id="a-blank"),
            pytest.param(
                messages([text("a", "1h")], " ", cache_control={"type": "ephemeral"}),
                id="a-blank-at-the-end",
            ),
            pytest.param(messages([text("a", "2h")]), id="a-lifetime-that-is-new"),
            pytest.param(
                messages([{"type": "new", "cache_control": {}}]), id="a-block-that-is-new"
            ),
        ],
    )
    def test_what_it_takes_or_may_take_is_left_to_it(self, payload):
        assert check_own_marks(read(payload)) is None

    def test_openai_takes_none_on_the_models_own_message(self):
        part = {**text("x"), "prompt_cache_breakpoint": {"mode": "explicit"}}

        assert "messages[0].content[0]" in check_own_marks(
            read(chat(("assistant", [part])), "openai.chat")
        )
        assert check_own_marks(read(chat(*[("user", [part])] * 9), "openai.chat")) is None


class TestKey:
    def test_is_the_same_for_the_same_beginning(self):
        one = read(chat(("system", "s"), ("user", "a")), "openai.chat")
        other = read(chat(("system", "s"), ("user", "b")), "openai.chat")

        assert cache_key(one, 0) == cache_key(other, 0)
        assert cache_key(one, 1) != cache_key(other, 1)

    def test_has_a_shard_and_fits(self):
        found = read(chat(("user", "a")), "openai.chat")

        keys = {cache_key(found, 0, shard) for shard in range(100)}

        assert len(keys) == 100
        assert max(map(len, keys)) <= 64


@pytest.mark.parametrize(
    ("options", "may"),
    [(None, True), ({}, True), ({"ttl": "30m"}, True), ({"mode": "implicit"}, False), ("x", False)],
)
def test_a_mode_that_the_caller_chose_stays(options, may):
    payload = chat(("user", "a"), prompt_cache_options=options)

    assert allows_explicit_only(payload) is may


def test_without_marks_the_mode_may_be_set_alone():
    payload = chat(("user", "a"))
    found = read(payload, "openai.chat")

    assert marked(payload, found, (), explicit_only=True) == {
        **payload,
        "prompt_cache_options": {"mode": "explicit"},
    }
    assert marked(payload, found, ()) is payload


@given(any_payload, st.data())
def test_what_is_legal_never_exceeds_the_limits(drawn, data):
    endpoint, payload = drawn
    found = read(payload, endpoint)

    left = legal(found, wanted(data, found, endpoint))

    assert len(left) <= max(found.max_marks - found.own_marks, 0)
    assert len({mark.block for mark in left}) == len(left)
    assert all(found.blocks[mark.block].is_markable for mark in left)
    assert all(found.blocks[mark.block].mark is None for mark in left)


@given(any_payload, st.data())
def test_marks_change_nothing_else(drawn, data):
    endpoint, payload = drawn
    before = copy.deepcopy(payload)
    found = read(payload, endpoint)
    marks = legal(found, wanted(data, found, endpoint))

    new = marked(payload, found, marks)

    assert payload == before
    assert plain(new, endpoint) == plain(payload, endpoint)
    assert marks_in(new) == marks_in(payload) + len(marks)


@given(any_payload, st.data())
def test_a_marked_prompt_is_the_same_prompt(drawn, data):
    endpoint, payload = drawn
    found = read(payload, endpoint)
    marks = legal(found, wanted(data, found, endpoint))

    again = read(marked(payload, found, marks), endpoint)

    assert [b.prefix for b in again.blocks] == [b.prefix for b in found.blocks]
    assert again.params == found.params
    ours = {mark.block: mark.ttl for mark in marks}
    assert [b.mark for b in again.blocks] == [
        ours.get(i, b.mark) for i, b in enumerate(found.blocks)
    ]
    was_fine = check_own_marks(found) is None
    assert not was_fine or check_own_marks(again) is None


@given(st.sampled_from(ENDPOINTS), junk)
def test_whatever_has_a_walk_can_be_marked(endpoint, payload):
    found = read(payload, endpoint)
    marks = (
        []
        if found is None
        else [Mark(index, TTLS[endpoint][0]) for index in range(len(found.blocks))]
    )

    if found is not None:
        check_own_marks(found)
        chosen = legal(found, marks)
        new = marked(payload, found, chosen, explicit_only=True)
        assert marks_in(new) >= len(chosen)
