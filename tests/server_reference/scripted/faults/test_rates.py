from __future__ import annotations

import re

import pytest

from server_reference.scripted.compile import json_reply
from server_reference.scripted.faults import fault, faults_at
from server_reference.scripted.ops import Fin
from tests.server_reference.scripted.received import a_request


def picked(chance, count=2000):
    return [chance.pick(number) for number in range(1, count + 1)]


def test_the_same_seed_breaks_the_same_requests():
    rates = {"reset_after": 0.1, "no_reply": 0.2}

    assert picked(faults_at(rates, seed=7)) == picked(faults_at(rates, seed=7))
    assert picked(faults_at(rates, seed=7)) != picked(faults_at(rates, seed=8))


def test_another_seed_does_not_break_the_same_ones_a_request_later():
    first, second = (picked(faults_at({"no_reply": 0.5}, seed=seed)) for seed in (7, 8))

    assert first[1:] != second[:-1]


def test_each_fault_has_its_share():
    found = picked(faults_at({"reset_after": 0.1, "no_reply": 0.2}, seed=7))

    assert abs(found.count(fault("reset_after")) - 200) < 50
    assert abs(found.count(fault("no_reply")) - 400) < 60
    assert abs(found.count(None) - 1400) < 70


def test_a_choice_is_of_the_request_and_not_of_those_before_it():
    chance = faults_at({"no_reply": 0.5}, seed=3)

    assert [chance.pick(n) for n in (9, 5, 9)] == [chance.pick(9), chance.pick(5), chance.pick(9)]


def test_parameters_stand_beside_the_rate():
    chance = faults_at({"stall_after": {"rate": 1, "events": 2}})

    assert chance.pick(1) == fault("stall_after", events=2)


def test_a_picked_fault_is_applied():
    assert faults_at({"no_reply": 1}).apply(json_reply({}), a_request()) == [Fin()]


def test_a_reply_that_cannot_be_broken_so_stays_whole():
    script = json_reply({})

    assert faults_at({"reset_after": 1}).apply(script, a_request()) == script


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"reset_after": 1.5}, "the rate of reset_after must be 0 to 1, not 1.5"),
        ({"reset_after": -0.1}, "the rate of reset_after must be 0 to 1, not -0.1"),
        ({"reset_after": True}, "the rate of reset_after must be 0 to 1, not True"),
        ({"reset_after": {"events": 1}}, "reset_after needs a rate"),
        ({"reset_after": 0.6, "no_reply": 0.6}, "the rates add up to 1.2"),
        ({"reset_aftr": 0.1}, "did you mean 'reset_after'?"),
        ({"reset_after": {"rate": 0.1, "event": 1}}, "did you mean 'events'?"),
    ],
)
def test_wrong_rates_are_told(rates, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        faults_at(rates)
