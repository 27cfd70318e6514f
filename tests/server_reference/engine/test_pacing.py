"""Prompt tokens beside decodes."""

from __future__ import annotations

import pytest

from server_reference.engine.pacing import PrefillPace


def a_pace(decode=0.040, token=0.001):
    pace = PrefillPace()
    for _ in range(20):
        pace.observe(num_decodes=0, num_prefill_tokens=100, duration=100 * token)
        pace.observe(num_decodes=8, num_prefill_tokens=0, duration=decode)
    return pace


def test_nothing_is_known_at_first_so_decodes_are_seen_alone():
    assert PrefillPace().limit() == 0


def test_what_a_prompt_takes_is_found_out_with_a_few_tokens():
    pace = PrefillPace()
    pace.observe(num_decodes=8, num_prefill_tokens=0, duration=0.040)

    assert pace.limit() == 16


def under_load(pace, *, steps, decode, token):
    """Steps that all have prompt tokens, as many as they may."""
    for _ in range(steps):
        tokens = pace.limit()
        duration = decode + tokens * token
        pace.observe(num_decodes=8, num_prefill_tokens=tokens, duration=duration)


def test_a_load_that_never_ends_does_not_keep_prompts_slow():
    """No step is without prompt tokens by itself."""
    pace = PrefillPace()
    pace.observe(num_decodes=0, num_prefill_tokens=100, duration=0.1)

    under_load(pace, steps=50, decode=0.040, token=0.001)

    assert pace.limit() == pytest.approx(32, abs=2)


def test_decodes_that_become_slower_are_not_blamed_on_prompts():
    pace = a_pace(decode=0.010)

    under_load(pace, steps=500, decode=0.040, token=0.001)

    assert max(pace.limit(), pace.limit()) == pytest.approx(32, abs=4)


def test_few_steps_are_without_prompt_tokens():
    pace = a_pace()

    limits = []
    for _ in range(200):
        limits.append(pace.limit())
        under_load(pace, steps=1, decode=0.040, token=0.001)

    assert limits.count(0) == 200 // 33


def test_a_mixed_step_lasts_at_most_the_stretch():
    assert a_pace().limit() == pytest.approx(0.8 * 40, abs=1)


def test_it_learns_from_mixed_steps_too():
    pace = a_pace()
    for _ in range(20):
        pace.observe(num_decodes=8, num_prefill_tokens=32, duration=0.040 + 32 * 0.0005)

    assert pace.limit() == pytest.approx(0.8 * 80, abs=2)


def test_a_crowd_that_waits_raises_the_limit():
    assert a_pace().limit(num_running=4, num_waiting=12) == pytest.approx(3 * 32, abs=3)


def test_a_slow_prompt_still_goes_on():
    assert a_pace(token=1.0).limit() == 16


@pytest.mark.parametrize("wrong", [{"stretch": 1.0}, {"weight": 0.0}, {"weight": 1.5}])
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="stretch must be above 1"):
        PrefillPace(**wrong)
