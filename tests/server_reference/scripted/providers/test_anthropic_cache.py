"""Which prefixes of Messages the prompt cache writes and finds: marks, order and minimum."""

from __future__ import annotations

import pytest

from server_reference.scripted.providers.cache_rules import MINIMUM_TOKENS, CacheRules
from tests.server_reference.scripted.providers.anthropic_prompts import (
    PROMPT,
    SYSTEM,
    assistant,
    tokens,
)
from tests.server_reference.scripted.providers.requests import (
    Asking,
    marked,
    messages,
    text,
    user,
)

CONTROL = {"type": "ephemeral"}


@pytest.fixture
def asking():
    return Asking()


def calls(num, name="t"):
    return assistant(
        *({"type": "tool_use", "id": f"{name}{i}", "name": name, "input": {}} for i in range(num))
    )


def results(num, name="t"):
    one = [
        {"type": "tool_result", "tool_use_id": f"{name}{i}", "content": "ok"} for i in range(num)
    ]
    return user(one)


class TestMarks:
    def test_nothing_is_cached_without_a_mark(self, asking):
        asking.begin(messages("hi!!", system=PROMPT))

        assert tokens(asking.begin(messages("hi!!", system=PROMPT))) == (0, {}, 1001)

    def test_what_a_mark_wrote_is_read_by_the_next_request(self, asking):
        first = asking.begin(messages("hi!!", system=SYSTEM))
        second = asking.begin(messages("ho!!", system=SYSTEM))

        assert tokens(first) == (0, {"5m": 1000}, 1)
        assert tokens(second) == (1000, {}, 1)

    def test_a_mark_is_no_part_of_the_prefix_that_it_ends(self, asking):
        asking.begin(messages("hi!!", system=SYSTEM))

        moved = [marked(user("hi!!")["content"])]
        reading = asking.begin(messages(user(moved), system=PROMPT))

        assert tokens(reading) == (1000, {"5m": 1}, 0)

    def test_a_property_that_is_named_like_a_mark_is_part_of_the_prefix(self, asking):
        def tool(kind):
            schema = {"properties": {"cache_control": {"type": kind}}, "description": PROMPT}
            return [marked({"name": "t", "input_schema": schema})]

        asking.begin(messages("hi!!", tools=tool("string")))

        assert asking.begin(messages("hi!!", tools=tool("number"))).cache_read == 0

    def test_a_mark_inside_a_tool_result_is_no_part_of_the_prefix(self, asking):
        def turn(inner):
            block = {"type": "tool_result", "tool_use_id": "t", "content": [inner]}
            return user(marked(block))

        asking.begin(messages(turn({"type": "text", "text": PROMPT})))

        assert asking.begin(messages(turn(marked(PROMPT)))).cache_read == 1000

    def test_a_string_is_the_same_prompt_as_one_block_of_text(self, asking):
        asking.begin(messages(user(PROMPT), user(marked("hi!!"))))

        listed = user([{"type": "text", "text": PROMPT}])

        assert asking.begin(messages(listed, user(marked("hi!!")))).cache_read == 1001

    def test_four_marks_may_stand_and_five_are_refused(self, asking):
        four = [marked("part") for _ in range(4)]

        asking.read(messages("hi!!", system=four))
        message = asking.refuse(messages("hi!!", system=[*four, marked("part")]))

        assert "at most 4 blocks may be marked, not 5" in message

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": ""},
        ],
        ids=["thinking", "redacted thinking", "empty text"],
    )
    def test_what_cannot_be_cached_cannot_be_marked(self, asking, block):
        assert "cannot be marked" in asking.refuse(messages(assistant(marked(block))))

    @pytest.mark.parametrize(
        "control",
        [True, {"type": "forever"}, {"type": "ephemeral", "ttl": "2h"}, {"ttl": [], "type": "x"}],
        ids=["no object", "other type", "other ttl", "ttl of a list"],
    )
    def test_a_mark_of_another_form_is_refused(self, asking, control):
        block = {"type": "text", "text": "hi", "cache_control": control}

        assert "messages.0.content.0.cache_control" in asking.refuse(messages(user(block)))

    def test_a_deferred_tool_is_no_part_of_the_prefix(self, asking):
        tool = {"name": "t", "description": PROMPT, "input_schema": {}}
        found_later = {"name": "u", "input_schema": {}, "defer_loading": True}
        asking.begin(messages("hi!!", tools=[marked(tool)]))

        reading = asking.begin(messages("hi!!", tools=[found_later, marked(tool)]))

        assert reading.cache_read > 1000

    def test_a_deferred_tool_cannot_be_marked(self, asking):
        tool = marked({"name": "t", "input_schema": {}, "defer_loading": True})

        assert "both defer_loading and cache_control" in asking.refuse(messages("hi", tools=[tool]))

    def test_a_null_mark_is_none(self, asking):
        block = {"type": "text", "text": PROMPT, "cache_control": None}

        assert asking.begin(messages(user(block))).cache_write == {}


class TestTopLevelMark:
    def test_marks_the_last_block(self, asking):
        reading = asking.begin(messages(PROMPT, cache_control=CONTROL))

        assert tokens(reading) == (0, {"5m": 1000}, 0)

    def test_moves_on_with_the_conversation(self, asking):
        asking.begin(messages(PROMPT, cache_control=CONTROL))

        longer = messages(PROMPT, assistant(), "more", cache_control=CONTROL)

        assert tokens(asking.begin(longer)) == (1000, {"5m": 1}, 0)

    def test_walks_back_from_a_block_that_cannot_be_marked(self, asking):
        thinking = {"type": "thinking", "thinking": "hmm.", "signature": "s"}

        reading = asking.begin(messages(PROMPT, assistant(thinking), cache_control=CONTROL))

        assert reading.cache_write == {"5m": 1000}

    def test_does_nothing_when_the_last_block_has_the_same_mark(self, asking):
        reading = asking.begin(messages(user(marked(PROMPT)), cache_control=CONTROL))

        assert reading.cache_write == {"5m": 1000}

    def test_is_refused_when_the_last_block_has_another_ttl(self, asking):
        request = messages(user(marked(PROMPT, "1h")), cache_control=CONTROL)

        assert "marked with ttl 1h, the request with 5m" in asking.refuse(request)

    def test_takes_one_of_the_four_marks(self, asking):
        three = [marked("part") for _ in range(3)]

        asking.read(messages("hi!!", system=three, cache_control=CONTROL))
        message = asking.refuse(
            messages("hi!!", system=[*three, marked("part")], cache_control=CONTROL)
        )

        assert "4 blocks are marked, which leaves no mark" in message

    def test_marks_nothing_when_there_is_nothing_to_mark(self, asking):
        assert asking.begin(messages(cache_control=CONTROL)).cache_write == {}


class TestOrder:
    def test_tools_come_before_the_system_prompt_and_this_before_messages(self, asking):
        tools = [marked({"name": "t", "description": PROMPT})]
        asking.begin(messages(PROMPT, tools=tools, system=[marked(PROMPT)]))

        reading = asking.begin(messages("other", tools=tools, system=[marked(text(1000, "b"))]))

        assert reading.cache_read == asking.begin(messages("x", tools=tools)).cache_read > 1000

    def test_keys_of_a_tool_in_another_order_are_another_prefix(self, asking):
        asking.begin(messages("hi", tools=[marked({"name": "t", "description": PROMPT})]))

        turned = [marked({"description": PROMPT, "name": "t"})]

        assert asking.begin(messages("hi", tools=turned)).cache_read == 0

    def test_tools_in_another_order_are_another_prefix(self, asking):
        one, two = {"name": "one", "description": PROMPT}, {"name": "two"}
        asking.begin(messages("hi", tools=[one, marked(two)]))

        assert asking.begin(messages("hi", tools=[two, marked(one)])).cache_read == 0


class TestLookBack:
    """A mark on the last block finds what an earlier mark wrote, up to 20 positions back."""

    def grow(self, asking, *turns):
        first = user([marked(PROMPT)])
        asking.begin(messages(first))
        *before, last = turns
        return asking.begin(messages(user(PROMPT), *before, user(marked(last))))

    @pytest.mark.parametrize(("blocks", "read"), [(19, 1000), (20, 0)], ids=["19 on", "20 on"])
    def test_the_mark_itself_is_the_first_of_twenty_positions(self, asking, blocks, read):
        between = [user("more") for _ in range(blocks - 1)]

        assert self.grow(asking, *between, "last").cache_read == read

    def test_twelve_parallel_tool_calls_are_two_positions(self, asking):
        reading = self.grow(asking, calls(12), results(12), "go on")

        assert reading.cache_read == 1000

    def test_alternating_tool_calls_count_one_by_one(self, asking):
        rounds = [turn for i in range(12) for turn in (calls(1, f"t{i}"), results(1, f"t{i}"))]

        assert self.grow(asking, *rounds, "go on").cache_read == 0

    def test_a_mark_between_keeps_the_hit(self, asking):
        rounds = [turn for i in range(12) for turn in (calls(1, f"t{i}"), results(1, f"t{i}"))]
        rounds[11] = user(marked(rounds[11]["content"][0]))

        assert self.grow(asking, *rounds, "go on").cache_read == 1000

    def test_writes_nothing_behind_the_mark(self, asking):
        """A stable prefix before a varying block is never read when only the block is marked."""
        asking.begin(messages(user([{"type": "text", "text": PROMPT}, marked("question 1")])))

        reading = asking.begin(messages(user([{"type": "text", "text": PROMPT}, marked("other")])))

        assert reading.cache_read == 0


class TestMinimum:
    @pytest.mark.parametrize(("model", "least"), MINIMUM_TOKENS.items())
    def test_a_prefix_below_the_models_minimum_is_silently_not_cached(self, asking, model, least):
        below = messages("hi!!", model=model, system=[marked(text(least - 1))])
        enough = messages("hi!!", model=model, system=[marked(text(least, "b"))])

        assert tokens(asking.begin(below)) == (0, {}, least)
        assert asking.begin(enough).cache_write == {"5m": least}

    def test_the_longest_name_in_the_table_counts(self):
        rules = CacheRules()

        assert rules.minimum_of("claude-sonnet-5-20260930") == 1024
        assert rules.minimum_of("anthropic/claude-sonnet-5-5") == 512

    def test_a_test_may_set_its_own(self):
        asking = Asking(CacheRules(default_minimum_tokens=10))

        reading = asking.begin(messages("hi!!", model="mine", system=[marked(text(10))]))

        assert reading.cache_write == {"5m": 10}


class TestPrewarm:
    def test_max_tokens_0_writes_and_generates_nothing(self, asking):
        warmed = asking.begin(messages("wait", system=SYSTEM, max_tokens=0))

        assert (warmed.is_prewarm, warmed.cache_write) == (True, {"5m": 1000})
        assert asking.begin(messages("hi!!", system=SYSTEM)).cache_read == 1000

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({"stream": True}, "stream"),
            ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
            ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format"),
            ({"tool_choice": {"type": "any"}}, "tool_choice"),
            ({"tool_choice": {"type": "tool", "name": "t"}}, "tool_choice"),
        ],
        ids=["stream", "thinking", "format", "any tool", "one tool"],
    )
    def test_what_asks_for_output_is_refused(self, asking, fields, path):
        message = asking.refuse(messages("wait", max_tokens=0, **fields))

        assert message.startswith(f"{path}: cannot be used with max_tokens 0")


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        pytest.param("claude-sonnet-5-5-20261001", 512, id="the-longest-name-counts"),
        pytest.param("claude-sonnet-5-20260301", 1024, id="not-the-next-version"),
        pytest.param("claude-mythos-preview", 2048, id="preview"),
        pytest.param("anthropic/claude-haiku-4-5", 4096, id="behind-a-router"),
    ],
)
def test_the_shortest_prefix_is_that_of_the_model(asking, model, tokens):
    short, enough = ([marked(text(number))] for number in (tokens - 1, tokens))

    assert asking.begin(messages("q", model=model, system=short)).cache_write == {}
    assert asking.begin(messages("q", model=model, system=enough)).cache_write == {"5m": tokens}
