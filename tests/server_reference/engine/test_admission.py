"""Who may start, and how much is expected of it."""

from __future__ import annotations

import pytest

from server_reference.engine.admission import Future, peak_growth
from server_reference.engine.books import OutputLengths
from tests.server_reference.engine.simulation import Simulation, a_scheduler, a_sequence


def test_the_peak_is_just_before_one_of_them_ends():
    """4 and 12 tokens of 4 a block: both grow by 1, then one gives 5 back and one grows by 2."""
    short, long = Future("t", 4, 0, 5), Future("t", 12, 1, 5)

    assert peak_growth([short, long], 4) == 3
    assert peak_growth([long], 4) == 4
    assert peak_growth([], 4) == 0


def test_what_a_short_one_gives_back_is_there_for_a_long_one():
    many = [Future("t", 8, 0, 4)] * 3
    long = Future("t", 40, 0, 4)

    assert peak_growth([*many, long], 4) == 8, "not 6 + 10"


def test_lengths_are_learned_by_tenant():
    lengths = OutputLengths()
    for length in (10, 10, 10):
        lengths.learn("a", length)

    expected = [
        lengths.remaining(a_sequence(0, max_tokens=500, tenant=tenant)) for tenant in ("a", "b")
    ]

    assert expected == [10, 0]


def test_new_lengths_count_for_more_than_old_ones():
    lengths = OutputLengths()
    for length in [10] * 1000 + [400] * 60:
        lengths.learn("t", length)

    assert lengths.remaining(a_sequence(0, max_tokens=500)) > 380


def test_of_many_tenants_those_that_were_not_seen_for_long_are_forgotten():
    lengths = OutputLengths()
    for tenant in ["first", "second", *map(str, range(1022)), "first", "last"]:
        lengths.learn(tenant, 10)

    expected = [lengths.remaining(a_sequence(0, tenant=one)) for one in ("first", "second", "last")]

    assert expected == [4, 0, 4]


def test_who_got_no_token_teaches_no_length():
    scheduler = a_scheduler()
    model = Simulation(scheduler)
    run(model, [a_sequence(0, max_tokens=8)])
    gone = [a_sequence(number, 40, max_tokens=8) for number in (1, 2)]
    model.add(*gone)
    model.step()

    for sequence in gone:
        scheduler.remove(sequence)

    assert scheduler.lengths.remaining(a_sequence(3, max_tokens=20)) == 8


@pytest.mark.parametrize(
    ("so_far", "max_tokens", "remaining"),
    [
        pytest.param(4, 500, 6, id="below-the-mean"),
        pytest.param(60, 500, 30, id="a-long-one-lasts"),
        pytest.param(8, 9, 1, id="never-beyond-max-tokens"),
    ],
)
def test_what_remains_is_the_mean_or_half_of_what_was(so_far, max_tokens, remaining):
    lengths = OutputLengths()
    lengths.learn("t", 10)
    sequence = a_sequence(0, max_tokens=max_tokens)
    sequence.output_token_ids = [0] * so_far

    assert lengths.remaining(sequence) == remaining


def run(model, sequences):
    model.add(*sequences)
    while model.has_work:
        model.step()


def preemptions(*, learned):
    scheduler = a_scheduler(num_blocks=60, max_num_seqs=16)
    model = Simulation(scheduler)
    if learned:
        run(model, [a_sequence(900 + number, max_tokens=24) for number in range(4)])
    scheduler.preemptions = 0
    run(model, [a_sequence(number, max_tokens=24) for number in range(40)])
    return scheduler.preemptions


def test_known_lengths_make_preemption_rare():
    assert preemptions(learned=False) > 3
    assert preemptions(learned=True) == 0


def test_blocks_are_left_free_when_a_sequence_starts_beside_others():
    scheduler = a_scheduler(num_blocks=10, watermark=0.4)
    model = Simulation(scheduler)
    model.add(*(a_sequence(number, 8, max_tokens=2) for number in range(4)))

    model.step()

    assert len(scheduler.running) == 3
    assert scheduler.pool.num_free == 4


def test_blocks_that_a_prompt_in_chunks_needs_yet_are_no_other_tenants():
    scheduler = a_scheduler(num_blocks=20, max_prefill_share=8)
    model = Simulation(scheduler)
    model.add(a_sequence(0, 60, max_tokens=1, tenant="a"))
    model.step()
    model.add(a_sequence(1, 28, max_tokens=1, tenant="b"))

    model.step()

    assert scheduler.pool.num_free >= 28 // 4
    assert list(scheduler.running) == ["s0"], "of 20 blocks s0 is promised 15, and s1 needs 7"


def copies(count, num_prompt, **options):
    return [a_sequence(number, num_prompt, token=7, **options) for number in range(count)]


def test_of_shared_blocks_only_the_last_holder_makes_room():
    """Each of four holds 8 blocks that all share and 1 of its own; 4 are free, and 6 are needed."""
    scheduler = a_scheduler(num_blocks=16, max_step_tokens=64, max_prefill_share=64)
    model = Simulation(scheduler)
    model.add(*copies(4, 33, max_tokens=30, tenant="many"))
    model.step()
    model.step()
    model.add(a_sequence(9, 24, tenant="few"))

    model.step()

    assert list(scheduler.running) == ["s0", "s1", "s9"]
    assert scheduler.preemptions == 2


def test_nobody_makes_room_in_vain():
    """Two more blocks are to stay free, so that three would have to go, and still not suffice."""
    scheduler = a_scheduler(
        num_blocks=16, watermark=0.125, max_step_tokens=64, max_prefill_share=64
    )
    model = Simulation(scheduler)
    model.add(*copies(4, 33, max_tokens=30, tenant="many"))
    model.step()
    model.step()
    model.add(a_sequence(9, 24, tenant="few"))

    model.step()

    assert len(scheduler.running) == 4
    assert scheduler.preemptions == 0


def test_a_shared_block_is_given_back_once_when_all_that_share_it_end():
    scheduler = a_scheduler(num_blocks=24, max_step_tokens=64, max_prefill_share=64)
    model = Simulation(scheduler)
    for number in range(4):
        run(model, [a_sequence(900 + number, max_tokens=24)])

    run(model, copies(8, 41, max_tokens=24))

    assert scheduler.preemptions == 0


def test_one_that_does_not_fit_lets_others_pass_but_not_for_ever():
    """A head that waits for blocks must neither block others nor starve (vllm#33499)."""
    scheduler = a_scheduler(num_blocks=12)
    model = Simulation(scheduler)
    model.add(a_sequence(0, 20, max_tokens=8))
    model.step()
    big = a_sequence(1, 40, max_tokens=1)
    model.add(big, *(a_sequence(number, 2, max_tokens=1) for number in range(2, 40)))
    passed = 0

    while big.row < 0 and not big.output_token_ids:
        passed += sum(entry.sequence.arrival > 1 for entry in model.step().scheduled)

    assert 8 <= passed < 16


def test_one_too_big_for_its_tenants_share_starts_in_the_end():
    scheduler = a_scheduler(num_blocks=12, max_num_seqs=3)
    model = Simulation(scheduler)
    big = a_sequence(0, 40, max_tokens=1, tenant="big")

    for number in range(1, 400):
        model.add(a_sequence(number, 4, max_tokens=8, tenant="small"))
        if number == 20:
            model.add(big)
        model.step()

    assert big in model.finished
