"""What the prompt cache reads and writes for Messages; PROMPT is beyond every minimum."""

from __future__ import annotations

import pytest

from server_reference.scripted.providers.cache_rules import MINIMUM_TOKENS, CacheRules
from tests.server_reference.scripted.providers.requests import (
    Asking,
    marked,
    messages,
    text,
    user,
)

PROMPT = text(1000)
SYSTEM = [marked(PROMPT)]
CONTROL = {"type": "ephemeral"}


@pytest.fixture
def asking():
    return Asking()


def tokens(reading):
    return reading.cache_read, reading.cache_write, reading.uncached


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


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


class TestTimeToLive:
    def test_five_minutes_are_counted_from_the_start_of_the_request(self, asking):
        reading = asking.read(messages("hi!!", system=SYSTEM))
        asking.clock.advance(240)  # a slow answer
        reading.begin()
        asking.clock.advance(59)
        almost = asking.read(messages("ho!!", system=SYSTEM)).cache_read

        assert almost == 1000

    def test_a_stream_of_four_minutes_leaves_one(self, asking):
        reading = asking.read(messages("hi!!", system=SYSTEM))
        asking.clock.advance(240)
        reading.begin()
        asking.clock.advance(60)

        assert asking.read(messages("ho!!", system=SYSTEM)).cache_read == 0

    @pytest.mark.parametrize(
        ("ttl", "minutes", "read"),
        [("5m", 6, 0), ("1h", 6, 1000), ("1h", 61, 0)],
        ids=["5m after 6", "1h after 6", "1h after 61"],
    )
    def test_a_prefix_is_gone_after_its_time(self, asking, ttl, minutes, read):
        asking.begin(messages("hi!!", system=[marked(PROMPT, ttl)]))
        asking.clock.advance(minutes * 60)

        assert asking.begin(messages("hi!!", system=[marked(PROMPT, ttl)])).cache_read == read

    def test_each_use_refreshes_it_for_nothing(self, asking):
        asking.begin(messages("hi!!", system=SYSTEM))
        for _ in range(3):
            asking.clock.advance(240)
            reading = asking.begin(messages("hi!!", system=SYSTEM))

        assert tokens(reading) == (1000, {}, 1)

    def test_a_mark_inside_of_what_is_read_is_refreshed_too(self, asking):
        request = messages(user(marked("hi!!")), system=SYSTEM)
        asking.begin(request)
        asking.clock.advance(240)
        asking.begin(request)
        asking.clock.advance(240)

        assert asking.begin(messages("other", system=SYSTEM)).cache_read == 1000

    def test_a_prefix_that_was_found_by_looking_back_is_refreshed(self, asking):
        asking.begin(messages(user(marked(PROMPT))))
        asking.clock.advance(240)
        asking.begin(messages(PROMPT, user(marked("more"))))
        asking.clock.advance(240)

        assert asking.begin(messages(PROMPT, user(marked("other")))).cache_read == 1000

    @pytest.mark.parametrize("turn", ["hi!!", marked("hi!!")], ids=["longest", "inside"])
    def test_reading_refreshes_even_when_the_reply_never_begins(self, asking, turn):
        request = messages(user(turn), system=SYSTEM)
        asking.begin(request)
        asking.clock.advance(240)
        asking.read(request)
        asking.clock.advance(240)

        assert asking.read(messages("other", system=SYSTEM)).cache_read == 1000

    def test_a_mark_inside_of_what_is_read_keeps_its_prefix_for_nothing(self, asking):
        asking.begin(messages(PROMPT, user(marked("hi!!"))))
        reading = asking.begin(messages(user(marked(PROMPT)), user(marked("hi!!"))))

        shorter = asking.begin(messages(user(marked(PROMPT)), "other"))

        assert tokens(reading) == (1001, {}, 0)
        assert shorter.cache_read == 1000

    def test_an_entry_keeps_the_lifetime_that_was_paid_for(self, asking):
        asking.begin(messages("hi!!", system=[marked(PROMPT, "5m")]))
        asking.begin(messages("hi!!", system=[marked(PROMPT, "1h")]))
        asking.clock.advance(360)

        assert asking.begin(messages("hi!!", system=[marked(PROMPT, "1h")])).cache_read == 0

    def test_what_is_written_is_split_by_time_to_live(self, asking):
        turn = user(marked(text(30)))

        reading = asking.begin(messages(turn, "hi!!", system=[marked(PROMPT, "1h")]))

        assert tokens(reading) == (0, {"1h": 1000, "5m": 30}, 1)

    @pytest.mark.parametrize("first", [None, "5m"], ids=["bare", "5m"])
    def test_a_mark_of_an_hour_after_one_of_five_minutes_is_refused(self, asking, first):
        request = messages(user(marked("hi", "1h")), system=[marked(PROMPT, first)])

        message = asking.refuse(request)

        assert message.startswith("messages.0.content.0.cache_control.ttl: a mark of 1h must")

    def test_the_top_level_mark_is_part_of_that_order(self, asking):
        hour = {"type": "ephemeral", "ttl": "1h"}

        message = asking.refuse(messages("hi", system=SYSTEM, cache_control=hour))

        assert "must stand before every mark of 5m" in message


class TestConcurrency:
    def test_a_prefix_can_be_read_once_the_reply_has_begun(self, asking):
        first = asking.read(messages("hi!!", system=SYSTEM))
        during = asking.read(messages("hi!!", system=SYSTEM)).cache_read
        first.begin()

        assert (during, asking.read(messages("hi!!", system=SYSTEM)).cache_read) == (0, 1000)

    def test_eight_cold_requests_at_once_all_pay_for_the_write(self, asking):
        readings = [asking.read(messages(f"q{i}", system=SYSTEM)) for i in range(8)]
        for reading in readings:
            reading.begin()

        assert [one.cache_write for one in readings] == [{"5m": 1000}] * 8

    def test_seven_that_wait_for_the_first_event_of_one_only_read(self, asking):
        asking.begin(messages("q0", system=SYSTEM))
        readings = [asking.read(messages(f"q{i}", system=SYSTEM)) for i in range(1, 8)]

        assert [one.cache_read for one in readings] == [1000] * 7

    def test_a_reply_that_never_begins_writes_nothing(self, asking):
        asking.read(messages("hi!!", system=SYSTEM))

        assert asking.read(messages("hi!!", system=SYSTEM)).cache_read == 0


class TestInvalidation:
    """Which tier a change takes with it; the tiers are 2,000, 1,000 and 500 tokens."""

    def ask(self, asking, *, tool="t", system="a", image=False, beta="", **fields):
        tools = [{"name": tool, "description": text(1990)}, marked({"name": "z"})]
        picture = [{"type": "image", "source": {}}] if image else []
        turn = user([marked(text(500)), *picture])
        system_blocks = [marked(text(1000, system))]
        request = messages(turn, tools=tools, system=system_blocks, beta=beta, **fields)
        return asking.begin(request)

    @pytest.mark.parametrize(
        "changed",
        [{"tool": "u"}, {"model": "claude-opus-5"}],
        ids=["tool", "model"],
    )
    def test_loses_everything(self, asking, changed):
        self.ask(asking)

        assert self.ask(asking, **changed).cache_read == 0

    @pytest.mark.parametrize(
        "changed",
        [{"system": "b"}, {"speed": "fast"}],
        ids=["system text", "speed"],
    )
    def test_keeps_the_tools(self, asking, changed):
        whole = self.ask(asking)

        read = self.ask(asking, **changed).cache_read

        assert read == sum(whole.cache_write.values()) - 1500

    @pytest.mark.parametrize(
        "changed",
        [
            {"tool_choice": {"type": "any"}},
            {"image": True},
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            {"output_config": {"effort": "low"}},
            {"output_format": {"type": "json_schema"}},
            {"context_management": {"edits": []}},
            {"beta": "one-2026-01-01"},
        ],
        ids="tool_choice image thinking effort output_format context_management beta".split(),
    )
    def test_keeps_the_tools_and_the_system_prompt(self, asking, changed):
        whole = self.ask(asking)

        read = self.ask(asking, **changed).cache_read

        assert read == sum(whole.cache_write.values()) - 500

    def test_web_search_keeps_the_tools(self, asking):
        tools = [marked({"name": "t", "description": PROMPT})]
        asking.begin(messages("hi", tools=tools, system=SYSTEM))

        search = {"type": "web_search_20260101", "name": "web_search"}
        reading = asking.begin(messages("hi", tools=[search, *tools], system=SYSTEM))

        assert 1000 <= reading.cache_read < 1100

    def test_citations_keep_the_tools(self, asking):
        tools = [marked({"name": "t", "description": PROMPT})]
        asking.begin(messages("hi", tools=tools, system=SYSTEM))

        document = {"type": "document", "source": {}, "citations": {"enabled": True}}
        reading = asking.begin(messages(user(document), tools=tools, system=SYSTEM))

        assert 1000 <= reading.cache_read < 1100

    def test_the_order_of_beta_headers_changes_nothing(self, asking):
        self.ask(asking, beta="one, two")

        assert self.ask(asking, beta="two,one").cache_write == {}


class TestScope:
    def test_another_key_reads_nothing(self, asking):
        asking.begin(messages("hi!!", system=SYSTEM, key="sk-1"))

        assert asking.begin(messages("hi!!", system=SYSTEM, key="sk-2")).cache_read == 0

    def test_keys_of_one_workspace_share(self):
        asking = Asking(CacheRules(workspaces={"sk-1": "w", "sk-2": "w"}))
        asking.begin(messages("hi!!", system=SYSTEM, key="sk-1"))

        assert asking.begin(messages("hi!!", system=SYSTEM, key="sk-2")).cache_read == 1000


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


class TestScenarios:
    def test_a_growing_chat_writes_the_delta_and_reads_the_rest(self, asking):
        turns = [user(text(600))]
        for number in range(5):
            sent = [*turns[:-1], user(marked(turns[-1]["content"]))]
            reading = asking.begin(messages(*sent, system=SYSTEM))
            turns += [assistant({"type": "text", "text": text(20)}), user(text(30, f"{number}"))]

        assert reading.cache_write == {"5m": 50}
        assert reading.cache_read / reading.input_tokens > 0.9

    def test_a_timestamp_in_the_system_prompt_is_written_again_and_again(self, asking):
        turns = [
            asking.begin(messages("hi", system=[marked(f"{PROMPT} it is {hour} o'clock")]))
            for hour in range(3)
        ]

        assert [one.cache_read for one in turns] == [0, 0, 0]
        assert all(one.cache_write["5m"] > 1000 for one in turns)

    def test_a_mark_before_the_timestamp_keeps_the_hit(self, asking):
        turns = [
            asking.begin(
                messages("hi", system=[marked(PROMPT), {"type": "text", "text": f"it is {hour}"}])
            )
            for hour in range(3)
        ]

        assert [one.cache_read for one in turns] == [0, 1000, 1000]

    def test_eviction_by_chance_loses_about_its_share_and_always_the_same(self):
        def reads():
            asking = Asking(CacheRules(eviction_rate=0.4, seed=7))
            return [asking.begin(messages("hi", system=SYSTEM)).cache_read for _ in range(200)]

        assert reads() == reads()
        assert 90 < reads().count(1000) < 150
