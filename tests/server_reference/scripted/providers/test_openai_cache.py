"""What the prompt cache reads and writes for Chat and Responses."""

from __future__ import annotations

import pytest

from server_reference.scripted.providers.cache_rules import CacheRules
from tests.server_reference.scripted.providers.requests import Asking, chat, responses, text, user

PROMPT = text(9000)
OLD = "gpt-5.1"
EXPLICIT = {"mode": "explicit"}


@pytest.fixture
def asking():
    return Asking()


def developer(content):
    return {"role": "developer", "content": content}


def point(content, ttl=None, *, kind="text"):
    mark = {"mode": "explicit"} | ({} if ttl is None else {"ttl": ttl})
    return {"type": kind, "text": content, "prompt_cache_breakpoint": mark}


def tokens(reading):
    return reading.cache_read, reading.cache_write, reading.uncached


class TestBeforeBreakpoints:
    def ask(self, asking, *turns, **fields):
        return asking.begin(chat(*turns, **{"model": OLD, **fields}))

    def test_a_prefix_is_cached_without_being_asked_for(self, asking):
        self.ask(asking, text(2000))

        reading = self.ask(asking, text(2000))

        assert reading.cache_read >= 1024
        assert reading.cache_write == {}

    def test_what_is_read_counts_in_steps_of_128_tokens(self, asking):
        self.ask(asking, text(2000), "one")

        assert self.ask(asking, text(2000), "two").cache_read == 1920

    def test_the_steps_are_those_of_whoever_counts(self):
        asking = Asking(CacheRules(count=lambda text: len(text) // 7))
        self.ask(asking, text(2000), "one")

        assert self.ask(asking, text(2000), "two").cache_read == 7680 // 7 // 128 * 128 == 1024

    @pytest.mark.parametrize(("shared", "read"), [(1000, 0), (1100, 1024)])
    def test_less_than_1024_tokens_are_not_read(self, asking, shared, read):
        self.ask(asking, text(shared), text(1000, "b"))

        assert self.ask(asking, text(shared), text(1000, "c")).cache_read == read

    def test_another_key_of_the_cache_goes_to_another_machine(self, asking):
        self.ask(asking, text(2000), prompt_cache_key="a")

        assert self.ask(asking, text(2000), prompt_cache_key="b").cache_read == 0
        assert self.ask(asking, text(2000), prompt_cache_key="a").cache_read > 0

    @pytest.mark.parametrize("name", ["openai-organization", "openai-project"])
    @pytest.mark.parametrize("model", [OLD, "gpt-5.6"])
    def test_nothing_of_another_organization_is_read(self, asking, name, model):
        for owner in ("a", "b"):
            sent = chat(text(2000), model=model)
            object.__setattr__(sent, "headers", (*sent.headers, (name, owner)))

            assert asking.begin(sent).cache_read == 0

    def test_the_sixteenth_request_of_a_minute_goes_to_a_cold_machine(self, asking):
        reads = [self.ask(asking, text(2000)).cache_read > 0 for _ in range(17)]

        assert reads == [False, *[True] * 14, False, True]

    def test_requests_that_are_spread_out_stay_on_their_machine(self, asking):
        reads = []
        for _ in range(17):
            reads.append(self.ask(asking, text(2000)).cache_read > 0)
            asking.clock.advance(5)

        assert reads == [False, *[True] * 16]

    def test_a_schema_is_a_part_of_the_prefix(self, asking):
        self.ask(asking, text(2000))

        assert self.ask(asking, text(2000), response_format={"type": "json"}).cache_read == 0

    def test_settings_of_the_newer_models_are_none(self, asking):
        self.ask(asking, text(2000))

        assert self.ask(asking, text(2000), reasoning_effort="low").cache_read > 0

    @pytest.mark.parametrize(
        ("retention", "idle", "kept"),
        [("in_memory", 299, True), ("in_memory", 300, False), ("24h", 86_399, True)],
        ids=["in memory, almost", "in memory", "a day"],
    )
    def test_a_prefix_is_kept_as_long_as_its_retention_says(self, asking, retention, idle, kept):
        self.ask(asking, text(2000), prompt_cache_retention=retention)
        asking.clock.advance(idle)

        reading = self.ask(asking, text(2000), prompt_cache_retention=retention)

        assert (reading.cache_read > 0) is kept

    def test_memory_forgets_after_an_hour_even_what_is_used(self, asking):
        reads = []
        for _ in range(14):
            reading = self.ask(asking, text(2000), prompt_cache_retention="in_memory")
            reads.append(reading.cache_read > 0)
            asking.clock.advance(290)

        assert reads == [False, *[True] * 12, False]

    def test_models_from_5_5_on_keep_for_a_day_only(self, asking):
        message = asking.refuse(chat("hi", model="gpt-5.5", prompt_cache_retention="in_memory"))

        assert 'prompt_cache_retention must be "24h"' in message

    @pytest.mark.parametrize(
        "fields",
        [{"prompt_cache_options": {}}, {"messages": [user(point("hi"))]}],
        ids=["options", "breakpoint"],
    )
    def test_breakpoints_are_unknown_to_them(self, asking, fields):
        assert "breakpoints came with gpt-5.6" in asking.refuse(chat(model=OLD, **fields))

    def test_what_never_began_is_not_cached(self, asking):
        asking.read(chat(text(2000), model=OLD))

        assert self.ask(asking, text(2000)).cache_read == 0

    def test_chance_may_take_it(self):
        asking = Asking(CacheRules(eviction_rate=1.0))
        self.ask(asking, text(2000))

        assert self.ask(asking, text(2000)).cache_read == 0


@pytest.mark.parametrize(
    ("model", "has"),
    [
        ("gpt-4o", False),
        ("o3-mini", False),
        ("gpt-5", False),
        ("gpt-5.5-pro", False),
        ("ft:gpt-4.1-mini:org", False),
        ("gpt-5.6-sol", True),
        ("openai/gpt-6", True),
        ("gpt-6.2", True),
        ("tiny", True),
    ],
)
def test_which_models_have_breakpoints(model, has):
    assert CacheRules().has_breakpoints(model) is has


class TestImplicit:
    def test_the_latest_user_message_is_written_to_its_end(self, asking):
        reading = asking.begin(chat(developer(text(1000)), text(37)))

        assert tokens(reading) == (0, {"30m": 1037}, 0)

    def test_a_growing_chat_reads_up_to_the_message_before(self, asking):
        asking.begin(chat(text(1100)))
        answer = {"role": "assistant", "content": text(10)}

        reading = asking.begin(chat(text(1100), answer, text(20, "b")))

        assert tokens(reading) == (1100, {"30m": 30}, 0)

    def test_one_prefix_with_varying_questions_is_never_read(self, asking):
        """openai/codex#35300: the mark sits on what varies, so that each call writes anew."""
        readings = [
            asking.begin(chat(developer(PROMPT), f"question {number}")) for number in range(4)
        ]

        assert [one.cache_read for one in readings] == [0, 0, 0, 0]
        assert all(one.cache_write["30m"] > 9000 for one in readings)

    def test_the_end_of_a_group_of_tool_replies_is_written(self, asking):
        replies = [{"role": "tool", "tool_call_id": f"{i}", "content": "okay"} for i in range(2)]
        call = {"role": "assistant", "content": text(10), "tool_calls": []}

        reading = asking.begin(chat(text(1100), call, *replies))

        assert reading.uncached == 0

    def test_instructions_alone_are_written_to_their_end(self, asking):
        request = responses(instructions=PROMPT, prompt_cache_options={"prewarm": True})

        assert tokens(asking.begin(request)) == (0, {"30m": 9000}, 0)

    def test_a_prefix_below_1024_tokens_is_silently_not_cached(self, asking):
        asking.begin(chat(text(1023)))

        assert tokens(asking.begin(chat(text(1023)))) == (0, {}, 1023)


class TestExplicit:
    def test_a_breakpoint_keeps_the_hit_whatever_is_asked(self, asking):
        readings = [
            asking.begin(chat(developer([point(PROMPT)]), text(5, f"{number}")))
            for number in range(3)
        ]

        assert [one.cache_read for one in readings] == [0, 9000, 9000]

    def test_the_boundary_is_exact(self, asking):
        asking.begin(chat(developer([point(text(1025))]), "one"))

        assert asking.begin(chat(developer([point(text(1025))]), "two")).cache_read == 1025

    def test_mode_explicit_does_not_write_the_tail(self, asking):
        turns = developer([point(PROMPT)]), text(5)

        reading = asking.begin(chat(*turns, prompt_cache_options=EXPLICIT))

        assert tokens(reading) == (0, {"30m": 9000}, 5)

    def test_mode_explicit_without_breakpoints_caches_nothing(self, asking):
        for _ in range(2):
            reading = asking.begin(chat(PROMPT, prompt_cache_options=EXPLICIT))

        assert tokens(reading) == (0, {}, 9000)

    @pytest.mark.parametrize(
        ("mode", "first_written"), [("implicit", 3), ("explicit", 2)], ids=["3 + 1", "4"]
    )
    def test_four_are_written_the_latest_ones(self, asking, mode, first_written):
        """Six breakpoints of 2,000 tokens each; a shorter prompt reads those that were written."""
        parts = [point(text(2000, f"{number}")) for number in range(6)]
        asking.begin(chat(developer(parts), "hi", prompt_cache_options={"mode": mode}))

        reads = [
            asking.read(chat(developer(parts[: number + 1]), prompt_cache_options=EXPLICIT))
            for number in range(6)
        ]

        written = [number for number, one in enumerate(reads) if one.cache_read]
        assert written[0] == first_written
        assert [reads[n].cache_read for n in written] == [2000 * (n + 1) for n in written]

    def test_only_the_latest_80_are_looked_up(self, asking):
        head = [point(PROMPT)]
        asking.begin(chat(developer(head), prompt_cache_options=EXPLICIT))
        tail = [point(f"p{number}") for number in range(80)]

        near = asking.read(chat(developer([*head, *tail[:79]]), prompt_cache_options=EXPLICIT))
        far = asking.read(chat(developer([*head, *tail]), prompt_cache_options=EXPLICIT))

        assert (near.cache_read, far.cache_read) == (9000, 0)

    def test_no_number_of_blocks_between_matters(self, asking):
        asking.begin(chat(developer([point(PROMPT)]), "hi"))
        turns = [user(f"turn {number}") for number in range(60)]

        assert asking.begin(chat(developer([point(PROMPT)]), *turns)).cache_read == 9000

    def test_a_breakpoint_is_no_part_of_the_prefix(self, asking):
        asking.begin(chat(text(1100)))

        marked = user([point(text(1100))])

        assert asking.begin(chat(marked, "more")).cache_read == 1100

    def test_a_string_is_the_same_prompt_as_one_part_of_text(self, asking):
        asking.begin(chat(text(1100)))
        asking.begin(responses(text(1100)))

        in_chat = asking.begin(chat(user([point(text(1100))]), "more"))
        part = point(text(1100), kind="input_text")
        in_responses = asking.begin(responses(user([part]), "more"))

        assert (in_chat.cache_read, in_responses.cache_read) == (1100, 1100)

    @pytest.mark.parametrize(
        ("part", "message"),
        [
            ({"type": "refusal", "prompt_cache_breakpoint": {"mode": "explicit"}}, "cannot stand"),
            ({**point("x"), "prompt_cache_breakpoint": {"mode": "implicit"}}, 'be "explicit"'),
            (point("x", "5m"), '"30m" or "12h"'),
        ],
        ids=["on another part", "another mode", "another ttl"],
    )
    def test_a_breakpoint_of_another_form_is_refused(self, asking, part, message):
        assert message in asking.refuse(chat(user(part)))


class TestOptions:
    @pytest.mark.parametrize(
        ("ttl", "after", "kept"),
        [("30m", 1799, True), ("30m", 1800, False), ("12h", 43_199, True)],
    )
    def test_a_prefix_lives_as_long_as_its_ttl(self, asking, ttl, after, kept):
        def ask():
            return asking.begin(responses(PROMPT, prompt_cache_options={"ttl": ttl}))

        written = ask().cache_write
        asking.clock.advance(after)

        assert written == {ttl: 9000}
        assert (ask().cache_read > 0) is kept

    def test_a_breakpoint_may_have_a_ttl_of_its_own(self, asking):
        request = responses(user([point(PROMPT, "12h", kind="input_text")]), text(7))

        assert asking.begin(request).cache_write == {"12h": 9000, "30m": 7}

    @pytest.mark.parametrize(
        "options",
        [{"ttl": "12h"}, {"prewarm": True}, {"comparison_response_id": "resp_1"}],
        ids=["12h", "prewarm", "comparison"],
    )
    def test_chat_does_not_know_what_responses_knows(self, asking, options):
        assert "prompt_cache_options" in asking.refuse(chat("hi", prompt_cache_options=options))

    @pytest.mark.parametrize(
        "options", [[], {"mode": "auto"}, {"ttl": "1h"}], ids=["no object", "mode", "ttl"]
    )
    def test_options_of_another_form_are_refused(self, asking, options):
        assert "must be" in asking.refuse(responses("hi", prompt_cache_options=options))

    def test_prewarm_writes_and_generates_nothing(self, asking):
        options = {"prewarm": True}

        reading = asking.begin(responses(instructions=PROMPT, prompt_cache_options=options))

        assert reading.is_prewarm
        assert asking.begin(responses("hi", instructions=PROMPT)).cache_read == 9000

    def test_responses_says_which_options_were_applied(self, asking):
        reading = asking.begin(responses("hi", prompt_cache_options={"mode": "explicit"}))

        assert reading.reply_fields["prompt_cache_options"] == {"mode": "explicit", "ttl": "30m"}


class TestScope:
    @pytest.mark.parametrize(
        "changed",
        [
            {"model": "gpt-6"},
            {"service_tier": "flex"},
            {"text": {"format": {"type": "json_schema"}}},
            {"text": {"verbosity": "low"}},
            {"reasoning": {"effort": "high"}},
            {"parallel_tool_calls": False},
            {"tools": [{"type": "function", "name": "t"}]},
            {"prompt_cache_key": "mine"},
            {"previous_response_id": "resp_1"},
            {"key": "sk-2"},
        ],
        ids=lambda changed: next(iter(changed)),
    )
    def test_another_setting_reads_nothing(self, asking, changed):
        asking.begin(responses(PROMPT))

        assert asking.begin(responses(PROMPT, **changed)).cache_read == 0

    def test_tool_choice_is_no_part_of_the_prefix(self, asking):
        asking.begin(responses(PROMPT))

        assert asking.begin(responses(PROMPT, tool_choice="none")).cache_read == 9000
