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


def test_nothing_is_known_at_first_so_little_is_dared():
    assert PrefillPace().limit() == 16


def test_a_mixed_step_lasts_at_most_the_stretch():
    assert a_pace().limit() == pytest.approx(0.8 * 40, abs=1)


def test_it_learns_from_mixed_steps_too():
    pace = a_pace()
    for _ in range(15):
        pace.observe(num_decodes=8, num_prefill_tokens=32, duration=0.040 + 32 * 0.0005)

    assert pace.limit() == pytest.approx(0.8 * 80, abs=2)


def test_a_crowd_that_waits_raises_the_limit():
    assert a_pace().limit(num_running=4, num_waiting=12) == pytest.approx(3 * 32, abs=3)


def test_a_slow_prompt_still_goes_on():
    assert a_pace(token=1.0).limit() == 2


def test_a_token_that_got_dearer_is_believed_sooner_than_one_that_got_cheaper():
    dearer, cheaper = a_pace(token=0.001), a_pace(token=0.003)

    for pace in (dearer, cheaper):
        pace.observe(num_decodes=8, num_prefill_tokens=20, duration=0.040 + 20 * 0.002)

    assert dearer.limit() == pytest.approx(0.8 * 40 / 1.6, abs=1)
    assert cheaper.limit() == pytest.approx(0.8 * 40 / 2.7, abs=1)


def test_every_so_often_a_step_with_decodes_alone_says_what_they_take():
    pace = a_pace()
    limits = []
    for _ in range(18):
        limits.append(pace.limit())
        duration = 0.020 + limits[-1] * 0.001
        pace.observe(num_decodes=1, num_prefill_tokens=limits[-1], duration=duration)

    assert [at for at, limit in enumerate(limits) if not limit] == [16]
    assert limits[17] < limits[15]


@pytest.mark.parametrize("wrong", [{"stretch": 1.0}, {"weight": 0.0}, {"weight": 1.5}])
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="stretch must be above 1"):
        PrefillPace(**wrong)
