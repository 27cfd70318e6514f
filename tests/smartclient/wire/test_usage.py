"""Usage in its one normal form, and how a reply says that it was served."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.wire import Served, Usage
from smartclient.wire.usage import (
    asked_of,
    by_ttl,
    changes_input,
    has_fees,
    normal,
    served_as,
    uncached_of,
)


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        pytest.param(Usage(), None, id="nothing-told"),
        pytest.param(Usage(cache_read=5), None, id="only-a-part-told"),
        pytest.param(Usage(uncached=3), 3, id="nothing-cached"),
        pytest.param(Usage(uncached=3, cache_read=7, cache_write={"5m": 4, "1h": 5}), 19, id="all"),
    ],
)
def test_the_parts_sum_to_the_input(usage, total):
    assert usage.input_tokens == total


def test_what_is_told_later_replaces_what_was_told_before():
    first = Usage(uncached=3, cache_read=1, output=1)

    assert first.updated(Usage(output=15, reasoning=0)) == Usage(
        uncached=3, cache_read=1, output=15, reasoning=0
    )
    assert first.updated(Usage()) == first


def test_the_last_counts_say_whether_they_are_final():
    first = Usage(uncached=3, output=1, is_final=False)

    assert first.updated(Usage(output=2)).is_final
    assert not first.updated(Usage(output=2, is_final=False)).is_final


def test_numbers_that_cannot_be_stay_so_until_the_input_is_told_again():
    wrong = Usage(cache_read=60, inconsistent="60 of 10", raw={"prompt_tokens": 10})

    assert wrong.updated(Usage(output=2)).inconsistent == "60 of 10"
    assert wrong.updated(Usage(output=2)).raw == {"prompt_tokens": 10}
    assert wrong.updated(Usage(uncached=7)).inconsistent is None
    assert Usage(uncached=7).updated(wrong).inconsistent == "60 of 10"


@pytest.mark.parametrize(
    ("first", "newer", "why"),
    [
        pytest.param(
            normal(Usage(uncached=1, output=-1), b"{}"), Usage(uncached=1), "-1 tokens", id="below"
        ),
        pytest.param(
            Usage(uncached=1, output=9), Usage(reasoning=94), "94 tokens of reasoning", id="a-part"
        ),
    ],
)
def test_numbers_of_two_events_that_cannot_be_together_are_marked(first, newer, why):
    assert why in first.updated(newer).inconsistent


def test_two_usages_add_up_part_by_part():
    one = Usage(uncached=1, cache_read=2, cache_write={"5m": 3}, output=4, reasoning=0)
    other = Usage(uncached=10, cache_read=0, cache_write={"5m": 30, "1h": 5}, output=40)

    assert one.plus(other) == Usage(
        uncached=11, cache_read=2, cache_write={"5m": 33, "1h": 5}, output=44
    )


def test_a_part_that_one_of_two_did_not_tell_is_unknown():
    assert Usage(uncached=1, output=2).plus(Usage(uncached=3, cache_read=0)) == Usage(uncached=4)


def test_a_sum_is_as_good_as_the_worse_of_two():
    cut = Usage(uncached=1, output=1, is_final=False)
    wrong = Usage(uncached=1, output=-1, inconsistent="-1", raw={"a": -1})

    assert not Usage().plus(cut).is_final
    assert not cut.plus(Usage()).is_final
    assert Usage().plus(wrong).raw == wrong.plus(Usage()).raw == {"a": -1}


COUNT = st.integers(0, 1000)
WHOLE = st.builds(
    Usage,
    uncached=COUNT,
    cache_read=COUNT,
    cache_write=st.dictionaries(st.sampled_from(["5m", "1h", "30m"]), COUNT),
    output=COUNT,
)


@given(one=WHOLE, other=WHOLE)
def test_sums_keep_the_invariant(one, other):
    both = one.plus(other)

    assert both.input_tokens == one.input_tokens + other.input_tokens
    assert both == other.plus(one)


@pytest.mark.parametrize(
    ("told", "seen", "output"), [(1, 7, 7), (20, 7, 20), (None, 3, 3), (None, 0, 0)]
)
def test_a_cut_answer_used_at_least_what_was_seen(told, seen, output):
    usage = Usage(uncached=9, output=told).at_least(seen)

    assert (usage.uncached, usage.output, usage.is_final) == (9, output, False)


@pytest.mark.parametrize(
    ("usage", "why"),
    [
        pytest.param(Usage(uncached=-1), "-1 tokens of uncached input", id="input"),
        pytest.param(Usage(cache_read=-2), "-2 tokens of input read from", id="read"),
        pytest.param(
            Usage(cache_write={"5m": 1, "1h": -3}),
            "-3 tokens of input written to the cache for 1h",
            id="written",
        ),
        pytest.param(Usage(output=-1_000), "-1,000 tokens of output", id="output"),
        pytest.param(Usage(reasoning=-5), "-5 tokens of reasoning", id="reasoning"),
        pytest.param(Usage(uncached=10**16), "over 1,000,000,000,000,000 tokens", id="much-input"),
        pytest.param(Usage(cache_read=10**16), "tokens of input read", id="much-read"),
        pytest.param(Usage(cache_write={"5m": 10**16}), "tokens of input wr", id="much-written"),
        pytest.param(Usage(output=10**5000), "tokens of output", id="too-many-digits-to-be-shown"),
        pytest.param(Usage(reasoning=10**16), "tokens of reasoning", id="much-reasoning"),
        pytest.param(
            Usage(output=9, reasoning=94), "94 tokens of reasoning in 9 of output", id="a-part"
        ),
    ],
)
def test_numbers_that_cannot_be_are_marked_and_kept(usage, why):
    found = normal(usage, b'{"usage": {"as": "told"}}')

    assert why in found.inconsistent
    assert found.raw == {"as": "told"}
    assert (found.uncached, found.output) == (usage.uncached, usage.output)


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param(Usage(), id="nothing-told"),
        pytest.param(Usage(uncached=0, cache_read=0, cache_write={}, output=0), id="zeros"),
        pytest.param(Usage(output=9, reasoning=9), id="all-of-it-reasoning"),
        pytest.param(Usage(reasoning=5), id="a-part-of-nothing-told"),
    ],
)
def test_numbers_that_can_be_are_left_alone(usage):
    assert normal(usage, b"unread") is usage


@pytest.mark.parametrize("holder", ["message", "response"])
def test_numbers_are_kept_wherever_they_were_told(holder):
    source = f'{{"{holder}": {{"usage": {{"n": 1}}}}}}'

    assert normal(Usage(), source, "odd").raw == {"n": 1}
    assert normal(Usage(), "{}", "odd").raw is None


@pytest.mark.parametrize(
    ("total", "split", "written", "contradiction"),
    [
        pytest.param(None, (0, 0), {}, None, id="nothing"),
        pytest.param(0, (0, 0), {}, None, id="zeros"),
        pytest.param(9, (4, 5), {"5m": 4, "1h": 5}, None, id="both"),
        pytest.param(None, (0, 5), {"1h": 5}, None, id="only-apart"),
        pytest.param(9, (0, 0), {"5m": 9}, None, id="only-together"),
        pytest.param(
            9,
            (4, 3),
            {"5m": 9},
            "9 tokens written to the cache, of which 7 told apart",
            id="less-apart",
        ),
        pytest.param(
            1,
            (4, 3),
            {"5m": 1},
            "1 tokens written to the cache, of which 7 told apart",
            id="more-apart",
        ),
        pytest.param(
            0, (4, 3), {}, "0 tokens written to the cache, of which 7 told apart", id="none-of-them"
        ),
    ],
)
def test_the_total_of_what_was_written_counts(total, split, written, contradiction):
    found, why = by_ttl(total, {"5m": split[0], "1h": split[1]})

    assert (found, why) == (written, contradiction)


@pytest.mark.parametrize(
    ("total", "read", "written", "uncached"),
    [
        pytest.param(2000, 500, {"30m": 300}, 1200, id="both"),  # litellm#40006
        pytest.param(10, 10, {}, 0, id="all-of-it"),
        pytest.param(10, None, None, 10, id="nothing-told"),
        pytest.param(0, 0, None, 0, id="zeros"),
        pytest.param(None, 5, None, None, id="no-total"),
        pytest.param(10, 60, {"30m": 1}, None, id="beyond"),
    ],
)
def test_what_the_cache_has_no_part_in(total, read, written, uncached):
    found, why = uncached_of(total, read, written)

    assert found == uncached
    assert (why is not None) == (read == 60)


@pytest.mark.parametrize(
    ("payload", "asked"),
    [
        pytest.param(None, None, id="no-payload"),
        pytest.param({"model": "m"}, None, id="nothing"),
        pytest.param({"service_tier": "flex"}, Served(service_tier="flex"), id="tier"),
        pytest.param({"speed": "fast"}, Served(speed="fast"), id="speed"),
        pytest.param({"inference_geo": "us"}, Served(geo="us"), id="geo"),
        pytest.param({"service_tier": 5}, Served(), id="no-name"),
    ],
)
def test_a_request_says_how_it_wants_to_be_served(payload, asked):
    assert asked_of(payload) == asked


def test_the_reply_comes_before_the_request():
    asked = Served(service_tier="auto", speed="fast", geo="us")

    served = served_as("m-1", "priority", None, ["odd"])

    assert served.over(asked) == Served(
        model="m-1", service_tier="priority", speed="fast", geo="us"
    )
    assert served.over(None) is served
    assert served_as(None, None) is None


@pytest.mark.parametrize(
    ("kind", "name", "fees"),
    [
        ("server_tool_use", "web_search", True), ("server_tool_use", "web_fetch", False),
        ("web_search_tool_result", None, False), ("compaction", None, True),
        ("web_search_call", None, True), ("mcp_call", "web_search", False),
        ("computer_call", None, False), ("tool_use", "web_search", False), (None, None, False),
    ],
)  # fmt: skip
def test_some_tools_of_the_provider_cost_more_than_tokens(kind, name, fees):
    assert has_fees(kind, name) is fees


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("text", False), ("message", False), ("tool_use", False), ("function_call", False),
        ("custom_tool_call", False), (None, False), (7, False),
        ("server_tool_use", True), ("web_search_tool_result", True), ("compaction", True),
        ("web_search_call", True), ("code_interpreter_call", True), ("mcp_call", True),
    ],
)  # fmt: skip
def test_parts_that_come_of_the_provider_change_the_input(kind, changes):
    assert changes_input(kind) is changes
