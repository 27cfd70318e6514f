"""Prompt tokens beside decodes."""

from __future__ import annotations

import pytest

from server_reference.engine.pacing import PrefillPace
from server_reference.engine.step import Scheduled, Step
from tests.server_reference.engine.simulation import a_sequence


def a_step(*, num_decodes=0, num_drafts=0, num_prompt_tokens=0, duration):
    decode = Scheduled(a_sequence(0), 8, 1 + num_drafts, True, num_drafts)
    prompts = [Scheduled(a_sequence(1), 0, num_prompt_tokens)] if num_prompt_tokens else []
    return Step([decode] * num_decodes + prompts, duration=duration)


def a_pace(decode=0.040, token=0.001, num_drafts=0):
    pace = PrefillPace()
    for _ in range(20):
        pace.observe(a_step(num_prompt_tokens=100, duration=100 * token))
        pace.observe(a_step(num_decodes=8, num_drafts=num_drafts, duration=decode))
    return pace


def test_nothing_is_known_at_first_so_little_is_dared():
    assert PrefillPace().limit() == 16


def test_a_mixed_step_lasts_at_most_the_stretch():
    assert a_pace().limit() == pytest.approx(0.8 * 40, abs=1)


def test_it_learns_from_mixed_steps_too():
    pace = a_pace()
    for _ in range(20):
        pace.observe(a_step(num_decodes=8, num_prompt_tokens=32, duration=0.040 + 32 * 0.0005))

    assert pace.limit() == pytest.approx(0.8 * 80, abs=2)


@pytest.mark.parametrize("num_drafts", [1, 7])
def test_guesses_are_the_decodes_and_no_prompt(num_drafts):
    """A step with both would teach that prompt tokens are as dear as decodes."""
    pace = a_pace(num_drafts=num_drafts)
    for _ in range(20):
        mixed = {"num_decodes": 8, "num_drafts": num_drafts, "num_prompt_tokens": 32}
        pace.observe(a_step(**mixed, duration=0.040 + 32 * 0.001))

    assert pace.limit() == pytest.approx(0.8 * 40, abs=1)


def test_a_crowd_that_waits_raises_the_limit():
    assert a_pace().limit(num_running=4, num_waiting=12) == pytest.approx(3 * 32, abs=3)


def test_a_slow_prompt_still_goes_on():
    assert a_pace(token=1.0).limit() == 16


@pytest.mark.parametrize("wrong", [{"stretch": 1.0}, {"weight": 0.0}, {"weight": 1.5}])
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="stretch must be above 1"):
        PrefillPace(**wrong)
