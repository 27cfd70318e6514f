"""Whose turn it is."""

from __future__ import annotations

import pytest

from server_reference.engine.fair_queue import FairQueue, Turns
from tests.server_reference.engine.simulation import a_sequence


def a_queue(*sequences):
    queue = FairQueue()
    for sequence in sequences:
        queue.add(sequence)
    return queue


def ids(sequences):
    return [sequence.id for sequence in sequences]


def test_a_tenants_line_is_by_priority_then_by_arrival():
    queue = a_queue(a_sequence(2, priority=1), a_sequence(1), a_sequence(0), a_sequence(3))

    assert ids(queue) == ["s2", "s0", "s1", "s3"]


def test_what_waits_is_counted_in_tokens_too():
    first, second = a_sequence(0, 5), a_sequence(1, 7)
    queue = a_queue(first, second)

    assert (len(queue), queue.num_tokens) == (2, 12)
    assert queue.remove(first)
    assert not queue.remove(first)
    assert (len(queue), queue.num_tokens) == (1, 7)


@pytest.mark.parametrize(
    ("max_queued", "max_tokens", "refused"),
    [
        pytest.param(4, None, [], id="fits"),
        pytest.param(3, None, ["s3"], id="one-too-many"),
        pytest.param(9, 24, [], id="tokens-fit"),
        pytest.param(9, 17, ["s2", "s3"], id="tokens-do-not"),
        pytest.param(9, 1, ["s1", "s2", "s3"], id="one-always-waits"),
    ],
)
def test_the_newest_beyond_a_limit_are_refused(max_queued, max_tokens, refused):
    queue = a_queue(*(a_sequence(number) for number in range(4)))

    assert ids(queue.overflow(max_queued, max_tokens)) == refused


@pytest.mark.parametrize("at", [pytest.param(-1, id="first"), pytest.param(9, id="last")])
def test_who_floods_the_queue_is_refused_whenever_another_came(at):
    flood = [a_sequence(number, tenant="flood") for number in range(4)]
    quiet = a_sequence(at, tenant="quiet")
    queue = a_queue(*sorted([*flood, quiet], key=lambda sequence: sequence.arrival))

    assert ids(queue.overflow(3)) == ["s2", "s3"]


def spender(wanted):
    """What each tenant got; none takes more than it wants."""
    got = dict.fromkeys(wanted, 0)

    def spend(tenant, credit):
        spent = min(credit, wanted[tenant] - got[tenant])
        got[tenant] += spent
        return spent

    return got, spend


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        pytest.param({"a": 90, "b": 90}, {"a": 20, "b": 20}, id="equal"),
        pytest.param({"a": 90, "b": 5}, {"a": 35, "b": 5}, id="what-one-leaves-another-gets"),
        pytest.param({"a": 3, "b": 5}, {"a": 3, "b": 5}, id="enough-for-all"),
    ],
)
def test_a_step_is_shared_equally(wanted, got):
    shared, spend = spender(wanted)

    Turns(4).give_out(wanted, 40, spend)

    assert shared == got


def test_steps_smaller_than_a_turn_are_shared_equally_over_time():
    shared, spend = spender({"a": 900, "b": 900, "c": 900})
    turns = Turns(16)

    for _ in range(48):
        turns.give_out(["a", "b", "c"], 10, spend)

    assert set(shared.values()) == {160}


def test_who_is_cut_short_by_the_end_of_each_step_loses_nothing():
    """The rest of its turn comes first in the next step."""
    shared, spend = spender({"a": 900, "b": 900})
    turns = Turns(8)

    for _ in range(48):
        turns.give_out(["a", "b"], 12, spend)

    assert shared == {"a": 288, "b": 288}
