"""Prompts that are too short to be kept, and calls that come too late."""

from __future__ import annotations

from itertools import pairwise

import pytest

from server_reference.scripted import Answer
from server_reference.scripted.providers import CacheRules
from smartclient.prompt_cache import CacheHints
from tests.end_to_end.cache_proof import MINUTE, says, share, tokens, told, ways

pytestmark = pytest.mark.sdk

SYSTEM = "rule by rule " * 600
HEAD = 1950
SHORT = "rule " * 480  # 600 tokens: long enough for some models only


# Below the minimum.


@ways("messages", "chat", "responses")
@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_a_prompt_below_the_minimum_is_no_error_and_told(proof, api, way, hints):
    model = "claude-opus-4-8" if api == "messages" else None  # both keep 1,024 tokens or more

    reports = proof(api, way=way, hints=hints, model=model).chat(4, SHORT)

    assert [(one.status, one.cache.miss) for one in reports] == [(200, "below_min")] * 4
    assert [told(one).read or told(one).written for one in reports] == [{}] * 4
    assert "the model keeps 1,024 or more" in reports[0].cache.why


@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_a_prompt_that_is_surely_too_short_is_not_marked(proof, hints):
    one = proof(hints=hints, model="claude-haiku-4-5")  # keeps 4,096 tokens or more

    one.chat(4, SHORT)

    assert [one.marks(number) for number in range(4)] == [[]] * 4


@pytest.mark.parametrize("hints", ["cautious", "full"])
@ways("messages")
def test_a_minimum_that_the_catalog_does_not_know_is_learned(proof, api, way, hints):
    """anthropic-sdk-python#1194: 1,024 documented, 2,048 observed."""
    one = proof(api, way=way, hints=hints, rules=CacheRules(minimum_tokens={"claude": 4000}))

    reports = one.chat(6, SYSTEM)

    first = 0 if hints == "full" else 1
    assert [bool(one.marks(number)) for number in range(first, first + 3)] == [True, False, False]
    assert [each.cache.miss for each in reports[first : first + 3]] == ["below_min"] * 3
    assert [told(each).written for each in reports] == [{}] * 6


@ways("messages")
def test_once_it_is_longer_than_what_was_learned_it_is_kept(proof, api, way):
    one = proof(api, way=way, rules=CacheRules(minimum_tokens={"claude": 3000}))

    reports = one.chat(14, SYSTEM, question="What is there to say of number {}, and why? ")

    kept = [bool(told(each).read) for each in reports]
    assert kept == sorted(kept)
    assert share(reports[-1:]) > 0.95


def test_below_the_minimum_a_lower_one_than_the_catalog_s_costs_nothing(proof):
    one = proof(model="claude-opus-4-8", rules=CacheRules(minimum_tokens={"claude": 100}))

    reports = one.chat(4, SYSTEM)

    assert share(reports[3:]) > 0.95


# Gaps.


@ways("messages")
def test_past_its_time_a_prompt_is_told_to_have_expired_with_its_gap(proof, api, way):
    reports = proof(api, way=way).chat(2, SYSTEM, gap=6 * MINUTE)

    assert reports[1].cache.miss == "ttl_expired"
    assert "was last used 6 min ago and is kept for 5 min" in reports[1].cache.why
    assert reports[1].cache.drift_path is None


@pytest.mark.parametrize("hints", ["cautious", "full"])
@ways("messages")
def test_with_six_minutes_between_calls_an_hour_is_bought_and_pays(proof, api, way, hints):
    one = proof(api, way=way, hints=hints)

    reports = one.chat(6, SYSTEM, gap=6 * MINUTE)

    assert {ttl for number in range(2, 6) for _, ttl in one.marks(number)} == {"1h"}
    assert [told(each).read for each in reports[3:]] == [
        told(before).read + told(before).written["1h"] for before in reports[2:-1]
    ]
    assert sum(each.cache.savings for each in reports) > 0


@ways("messages")
def test_with_one_minute_between_calls_no_hour_is_bought(proof, api, way):
    one = proof(api, way=way)

    one.chat(6, SYSTEM, gap=1 * MINUTE)

    assert {ttl for number in range(6) for _, ttl in one.marks(number)} == {""}


def test_with_an_hour_between_calls_nothing_is_bought(proof):
    one = proof(hints="cautious")

    reports = one.chat(6, SYSTEM, gap=61 * MINUTE)

    assert [told(each).written for each in reports] == [{}] * 6
    assert sum(each.cache.savings for each in reports) == 0


def test_in_full_mode_two_writes_teach_that_nothing_is_read_in_time(proof):
    reports = proof().chat(6, SYSTEM, gap=61 * MINUTE)

    assert [bool(told(each).written) for each in reports] == [True, True] + [False] * 4
    assert reports[1].cache.why.startswith("the prefix was last used 61 min ago")
    assert reports[3].cache.why == "not marked: nothing that was sent twice is worth a mark"


def test_where_an_hour_is_not_allowed_five_minutes_are_left_alone(proof):
    one = proof(hints=CacheHints(mode="full", ttls=("5m",)))

    reports = one.chat(6, SYSTEM, gap=6 * MINUTE)

    assert [told(each).written for each in reports[2:]] == [{}] * 4


def test_back_to_quick_calls_the_hour_is_given_up(proof):
    one = proof()
    slow = one.chat(4, SYSTEM, gap=6 * MINUTE)
    quick = one.chat(40, SYSTEM + "Be quick.", gap=20.0)

    assert set(told(slow[-1]).written) == {"1h"}
    assert set(told(quick[-1]).written) == {"5m"}


@ways("chat")
def test_openai_s_mark_is_turned_off_where_every_turn_comes_too_late(proof, api, way):
    reports = proof(api, way=way).chat(6, SYSTEM, gap=61 * MINUTE)

    assert [bool(told(each).written) for each in reports] == [True, True] + [False] * 4
    assert [each.cache.savings for each in reports[2:]] == [0.0] * 4


@ways("responses")
def test_twelve_hours_are_bought_where_half_an_hour_is_too_short(proof, api, way):
    reports = proof(api, way=way).chat(7, SYSTEM, gap=61 * MINUTE)

    for before, turn in pairwise(reports[2:]):
        assert told(turn).read == told(before).read + told(before).written["12h"]
    assert sum(each.cache.savings for each in reports) > 0


@ways("chat", "responses")
def test_six_minutes_are_no_gap_to_openai(proof, api, way):
    reports = proof(api, way=way).chat(4, SYSTEM, gap=6 * MINUTE)

    assert [share([each]) > 0.95 for each in reports[1:]] == [True] * 3


@pytest.mark.parametrize(
    ("model", "gap", "is_read"),
    [
        pytest.param("gpt-5.1", 6 * MINUTE, True, id="within-the-day"),
        pytest.param("gpt-5.1", 25 * 60 * MINUTE, False, id="past-it"),
    ],
)
def test_an_automatic_cache_ages_without_a_mark(proof, model, gap, is_read):
    reports = proof("chat", model=model).chat(3, SYSTEM, gap=gap)

    assert [bool(told(each).read) for each in reports[1:]] == [is_read] * 2
    assert reports[2].cache.miss == (None if is_read else "ttl_expired")


def test_a_slow_stream_counts_from_its_start(proof):
    """Four minutes of an answer leave one of five: the next call, two minutes on, is late."""
    one = proof(answer=Answer("Fine.", ttft=240.0))
    said = [says("user", "Begin. " * 20)]
    one.say(SYSTEM, said, stream=True)
    one.clock.advance(2 * MINUTE)

    late = one.say(SYSTEM, [*said, says("assistant", "Fine."), says("user", "Go on.")])

    assert late.cache.miss == "ttl_expired"
    assert told(late).read == 0
    assert tokens(SYSTEM) == HEAD
