"""The last steps in words."""

from __future__ import annotations

from tests.server_reference.engine.simulation import Simulation, a_scheduler, a_sequence


def a_model(**options):
    return Simulation(a_scheduler(**({"traced_steps": 3} | options)))


def whys(step):
    return {record.id: record.why for record in (*step.scheduled, *step.waiting)}


def test_a_step_says_who_computed_what_in_which_blocks_and_why():
    model = a_model(max_num_seqs=1)
    model.add(a_sequence(0, 6), a_sequence(1, 5))
    model.scheduler.expire(12.5)
    step = model.step()
    step.duration = 0.25

    (record,) = model.scheduler.explain(5, since=10.0)

    assert (record.number, record.at, record.duration) == (1, 2.5, 0.25)
    assert [one.blocks for one in record.scheduled] == [(0, 1)]
    assert whys(record) == {
        "s0": "prefill 1-6 of 6",
        "s1": "1 run, of 1: its tenant has its share",
    }
    assert record.waiting[0].num_tokens == 5


def test_of_a_long_queue_few_are_told_and_all_are_counted():
    model = a_model(max_num_seqs=1)
    model.add(*(a_sequence(number) for number in range(50)))
    model.step()

    (record,) = model.scheduler.explain(1)

    assert (record.num_waiting, len(record.waiting)) == (49, 32)


def test_of_a_long_line_few_are_looked_at_in_a_step():
    """A step must not take longer the more prompts wait for blocks."""
    model = a_model(num_blocks=6)
    model.add(*(a_sequence(number, 20) for number in range(50)))
    model.step()

    (record,) = model.scheduler.explain(1)

    assert sum("blocks are free" in why for why in whys(record).values()) == 16


def test_only_the_last_steps_are_remembered():
    model = a_model()
    model.add(a_sequence(0, 6, max_tokens=9))
    for _ in range(5):
        model.step()

    assert [step.number for step in model.scheduler.explain(9)] == [3, 4, 5]
    assert [step.number for step in model.scheduler.explain(1)] == [5]
    assert whys(model.scheduler.explain(1)[0]) == {"s0": "decode"}


def test_nothing_is_remembered_where_nothing_is_asked_for():
    model = a_model(traced_steps=0)
    model.add(a_sequence(0))
    model.step()

    assert model.scheduler.explain(9) == []


def test_it_tells_of_preemption_and_of_shared_blocks():
    model = a_model(num_blocks=5, traced_steps=99)
    model.add(a_sequence(0, 8, max_tokens=6), a_sequence(1, 8, max_tokens=6))
    while model.has_work:
        model.step()

    records = model.scheduler.explain(99)
    again = [one for step in records for one in step.scheduled if "recompute" in one.why]

    assert [step.preempted for step in records if step.preempted] == [("s1",)]
    assert [(one.id, one.num_shared > 0) for one in again] == [("s1", True)]


def test_drafts_and_waiting_for_a_block_are_told():
    model = a_model()
    model.add(*(a_sequence(number, 20, max_tokens=9, token=7) for number in (0, 1)))
    model.step()
    waits = whys(model.scheduler.explain(1)[0])["s1"]
    for _ in range(2):
        model.step()
    model.step(drafts=1)

    assert waits == "another computes a block that it can share"
    assert "decode, drafts to check: 2" in whys(model.scheduler.explain(1)[0]).values()
