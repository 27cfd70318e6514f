"""Why a prompt was not read, in the shape of either provider."""

from __future__ import annotations

import pytest

from server_reference.scripted.providers.cache_diagnosis import Fingerprint, Fingerprints
from server_reference.scripted.providers.cache_rules import CacheRules
from tests.server_reference.scripted.providers.requests import (
    Asking,
    marked,
    messages,
    responses,
    text,
    user,
)

PROMPT = text(1000)


@pytest.fixture
def asking():
    return Asking()


class TestAnthropic:
    def ask(self, asking, *turns, after="none", **fields):
        """The diagnosis, and the id to name in the next request."""
        before = {"previous_message_id": None if after == "none" else after}
        turns = turns or (user(marked(text(100))),)
        given = {"system": [marked(PROMPT)], "diagnostics": before, **fields}
        request = messages(*turns, **given)
        reading = asking.begin(request)
        return reading.reply_fields["diagnostics"], f"msg_{request.reply_id}"

    def reason(self, asking, **changed):
        _, first = self.ask(asking)
        told, _ = self.ask(asking, after=first, **changed)
        return told

    def test_is_absent_unless_it_is_asked_for(self, asking):
        assert "diagnostics" not in asking.begin(messages("hi")).reply_fields

    def test_is_null_on_the_first_turn(self, asking):
        assert self.ask(asking)[0] is None

    def test_is_null_when_turns_were_only_added(self, asking):
        _, first = self.ask(asking)

        told, _ = self.ask(asking, user(text(100)), "and then?", after=first)

        assert told is None

    @pytest.mark.parametrize(
        ("changed", "type_", "missed"),
        [
            ({"model": "claude-opus-5"}, "model_changed", 1100),
            ({"speed": "fast"}, "model_changed", 1100),
            ({"tools": [{"name": "t"}]}, "tools_changed", 1100),
            ({"system": [marked(text(1000, "b"))]}, "system_changed", 1100),
            ({"system": [marked(text(9, "b"))], "tools": [{"name": "t"}]}, "tools_changed", 1100),
        ],
        ids=["model", "speed", "tools", "system", "tools before system"],
    )
    def test_names_the_first_part_that_changed(self, asking, changed, type_, missed):
        told = self.reason(asking, **changed)

        assert told == {"cache_miss_reason": {"type": type_, "cache_missed_input_tokens": missed}}

    def test_says_how_much_of_the_messages_was_lost(self, asking):
        _, first = self.ask(asking)

        told, _ = self.ask(asking, user(marked(text(100, "b"))), after=first)

        assert told == {
            "cache_miss_reason": {"type": "messages_changed", "cache_missed_input_tokens": 100}
        }

    def test_a_shorter_history_is_a_change(self, asking):
        _, first = self.ask(asking, user(text(100)), "and then?")

        told, _ = self.ask(asking, user(text(100)), after=first)

        assert told["cache_miss_reason"]["type"] == "messages_changed"

    @pytest.mark.parametrize(
        "changed",
        [{"tool_choice": {"type": "any"}}, {"beta": "one"}, {"output_config": {"effort": "low"}}],
        ids=["tool_choice", "beta", "effort"],
    )
    def test_other_parameters_are_unavailable(self, asking, changed):
        assert self.reason(asking, **changed) == {"cache_miss_reason": {"type": "unavailable"}}

    @pytest.mark.parametrize("case", ["unknown", "not opted in", "another key"])
    def test_a_message_that_is_not_kept_is_not_found(self, asking, case):
        request = messages("hi")
        asking.begin(request)
        ids = {
            "unknown": "msg_none",
            "not opted in": f"msg_{request.reply_id}",
            "another key": self.ask(asking, key="sk-2")[1],
        }

        told, _ = self.ask(asking, after=ids[case])

        assert told == {"cache_miss_reason": {"type": "previous_message_not_found"}}

    def test_is_told_of_the_requests_even_when_the_entry_expired(self, asking):
        _, first = self.ask(asking)
        asking.clock.advance(400)

        assert self.ask(asking, after=first)[0] is None

    def test_may_be_pending(self):
        asking = Asking(CacheRules(diagnosis="pending"))

        assert self.reason(asking, speed="fast") == {"cache_miss_reason": None}


class TestOpenAI:
    def ask(self, asking, *items, after=None, **fields):
        options = {} if after is None else {"comparison_response_id": after}
        items = items or (text(1100),)
        request = responses(*items, prompt_cache_options=options, **fields)
        reading = asking.begin(request)
        return reading.reply_fields.get("prompt_cache_diagnostics"), f"resp_{request.reply_id}"

    def test_is_absent_unless_it_is_asked_for(self, asking):
        assert self.ask(asking)[0] is None

    def test_a_prefix_that_was_read_is_a_hit(self, asking):
        _, first = self.ask(asking)

        assert self.ask(asking, text(1100), "more", after=first)[0] == {"type": "cache_hit"}

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"model": "gpt-6"}, "model_changed"),
            ({"prompt_cache_key": "mine"}, "prompt_cache_key_changed"),
            ({"tools": [{"name": "t"}]}, "tools_changed"),
            ({"text": {"format": {"type": "json_object"}}}, "text_format_changed"),
            ({"reasoning": {"effort": "low"}}, "reasoning_effort_changed"),
            ({"text": {"verbosity": "low"}}, "verbosity_changed"),
            ({"service_tier": "flex"}, "service_tier_changed"),
        ],
    )
    def test_names_the_setting_that_changed(self, asking, changed, reason):
        _, first = self.ask(asking)

        told, _ = self.ask(asking, after=first, **changed)

        assert (told["type"], told["reason"]) == ("cache_miss", reason)
        assert told["cache_missed_tokens"] >= 1100
        assert told["comparison_reusable_tokens"] == 1100

    def test_says_where_the_input_changed(self, asking):
        _, first = self.ask(asking, text(1100), text(50))

        told, _ = self.ask(asking, text(1100), text(70, "b"), after=first)

        assert told == {
            "type": "cache_miss",
            "reason": "input_changed",
            "cache_missed_tokens": 70,
            "comparison_reusable_tokens": 1150,
        }

    def test_a_compacted_conversation_is_named(self, asking):
        _, first = self.ask(asking)

        told, _ = self.ask(asking, {"type": "compaction", "id": "c"}, text(1100), after=first)

        assert told["reason"] == "context_compacted"

    def test_a_miss_without_any_difference_is_unavailable(self, asking):
        _, first = self.ask(asking)
        asking.clock.advance(1800)

        assert self.ask(asking, after=first)[0] == {"type": "unavailable"}

    def test_a_reply_that_is_not_kept_is_not_found(self, asking):
        told, _ = self.ask(asking, after="resp_none")

        assert told == {"type": "comparison_response_not_found"}

    def test_the_options_echo_what_was_compared(self, asking):
        reading = asking.begin(
            responses("hi", prompt_cache_options={"comparison_response_id": "resp_none"})
        )

        told = reading.reply_fields["prompt_cache_options"]
        assert told["comparison_response_id"] == "resp_none"


def test_fingerprints_are_bounded():
    kept = Fingerprints()
    big = Fingerprint("me", {}, (b"",) * 150_000, (0,) * 150_000, 0)

    kept.keep("first", big)
    kept.keep("second", big)

    assert kept.find("first", "me") is None
    assert kept.find("second", "me") is big
