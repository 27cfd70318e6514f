"""The arrays of a step."""

from __future__ import annotations

import pytest

from server_reference.core import SamplingParams, Sequence
from server_reference.engine.batch_builder import BatchBuilder
from server_reference.engine.scheduler import Scheduled, Step


def a_sequence(prompt, *, table, output=(), max_tokens=8, row=0):
    params = SamplingParams(max_tokens=max_tokens)
    sequence = Sequence(id="s", tenant="t", prompt_token_ids=prompt, params=params, arrival=0)
    sequence.output_token_ids, sequence.block_table = list(output), table
    sequence.row = row
    return sequence


def a_builder(block_size=4):
    return BatchBuilder(max_num_seqs=4, max_blocks=8, block_size=block_size)


def a_step(*entries):
    return Step(list(entries))


@pytest.fixture
def batch():
    """A decode at position 4 in blocks 5 and 2, and a chunk of 3 from position 1 in block 7."""
    decode = a_sequence([10, 11, 12, 13], table=[5, 2], output=[14])
    prefill = a_sequence([20, 21, 22, 23, 24], table=[7], row=2)
    step = a_step(Scheduled(decode, 4, 1, reaches_target=True), Scheduled(prefill, 1, 3))
    return a_builder().build(step)


def test_tokens_and_positions_lie_end_to_end(batch):
    assert batch.token_ids.tolist() == [14, 21, 22, 23]
    assert batch.positions.tolist() == [4, 1, 2, 3]
    assert batch.query_start.tolist() == [0, 1, 4]


def test_each_token_has_its_slot(batch):
    assert batch.slots.tolist() == [2 * 4 + 0, 7 * 4 + 1, 7 * 4 + 2, 7 * 4 + 3]


def test_a_context_includes_the_new_tokens(batch):
    assert batch.context_lens.tolist() == [5, 4]


def test_a_short_block_table_repeats_its_own_first_block(batch):
    """What lies past its end is read and masked: it must not be another sequence's."""
    assert batch.block_table.tolist() == [[5, 2], [7, 7]]


def test_only_rows_that_reach_their_target_are_sampled(batch):
    assert batch.sample_rows.tolist() == [0]
    assert batch.sampled.tolist() == [0]


def test_a_sequence_that_asked_for_no_output_is_not_sampled():
    sequence = a_sequence([1, 2], table=[0], max_tokens=0)

    batch = a_builder().build(a_step(Scheduled(sequence, 0, 2, reaches_target=True)))

    assert batch.sample_rows.tolist() == []
    assert batch.sampled.tolist() == []


def test_a_recomputed_sequence_spans_prompt_and_output():
    sequence = a_sequence([1, 2], table=[0, 1], output=[3, 4])

    batch = a_builder(2).build(a_step(Scheduled(sequence, 0, 4, reaches_target=True)))

    assert batch.token_ids.tolist() == [1, 2, 3, 4]
    assert batch.sample_rows.tolist() == [3]


def test_a_token_that_was_sampled_last_is_carried_whether_it_is_known_or_not():
    """On a device it is there already; with lookahead it is nowhere else."""
    sequence, builder = a_sequence([1, 2, 3], table=[6], row=3), a_builder()
    builder.build(a_step(Scheduled(sequence, 0, 3, reaches_target=True)))

    batch = builder.build(a_step(Scheduled(sequence, 3, 1, reaches_target=True)))

    assert batch.token_ids.tolist() == [-1 - 3]


@pytest.mark.parametrize("start", [pytest.param(2, id="chunk"), pytest.param(3, id="last-token")])
def test_one_token_of_a_prompt_is_not_carried(start):
    sequence, builder = a_sequence([1, 2, 3, 4], table=[6]), a_builder()
    builder.build(a_step(Scheduled(sequence, 0, start)))

    batch = builder.build(a_step(Scheduled(sequence, start, 1)))

    assert batch.token_ids.tolist() == [start + 1]


def test_nothing_is_carried_over_to_who_takes_the_row_next():
    builder = a_builder()
    builder.build(a_step(Scheduled(a_sequence([1, 2, 3], table=[6]), 0, 3, reaches_target=True)))

    batch = builder.build(a_step(Scheduled(a_sequence([5, 6, 7, 8], table=[2]), 3, 1)))

    assert (batch.token_ids.tolist(), batch.slots.tolist()) == ([8], [2 * 4 + 3])


def test_no_other_table_is_taken_for_one_that_is_gone():
    """Tables are told apart by where they lie in memory, which may be used again."""
    builder, table = a_builder(), [6, 5, 4]
    place = id(table)
    builder.build(a_step(Scheduled(a_sequence(list(range(9)), table=table), 0, 9)))
    del table

    others = [[number, 0, 0] for number in range(1000)]

    assert place not in {id(others), *map(id, others)}


def test_a_table_that_grows_shrinks_or_is_another_is_followed():
    sequence, builder = a_sequence(list(range(20)), table=[6, 7]), a_builder()
    tables = []
    for change in ("none", "grow", "shrink", "other"):
        if change == "grow":
            sequence.block_table += [5, 4]
        if change == "shrink":
            del sequence.block_table[1:]
        if change == "other":
            sequence.block_table = [3, 2]
        beside = Scheduled(a_sequence(list(range(20)), table=[1, 1, 1, 1], row=1), 0, 1)
        tables.append(builder.build(a_step(Scheduled(sequence, 0, 1), beside)).block_table[0])

    assert [table.tolist() for table in tables] == [
        [6, 7, 6, 6],
        [6, 7, 5, 4],
        [6, 6, 6, 6],
        [3, 2, 3, 3],
    ]


def test_drafts_follow_the_known_tokens_and_are_all_sampled():
    guessing, plain = a_sequence([1, 2], table=[0], output=[3]), a_sequence([9], table=[4], row=1)
    guessing.drafts = [7, 8, 9]
    entries = [
        Scheduled(plain, 0, 1, reaches_target=True),
        Scheduled(guessing, 2, 3, reaches_target=True, num_drafts=2),
    ]

    batch = a_builder().build(a_step(*entries))

    assert batch.token_ids.tolist() == [9, 3, 7, 8]
    assert batch.sample_rows.tolist() == [0, 1, 2, 3]
    assert batch.sampled.tolist() == [0, 1]


def test_after_drafts_the_next_token_is_the_hosts():
    """How many of them were right is not known when the batch is laid out."""
    sequence, builder = a_sequence([1, 2], table=[0], output=[3]), a_builder()
    sequence.drafts = [7]
    builder.build(a_step(Scheduled(sequence, 2, 2, reaches_target=True, num_drafts=1)))
    sequence.drafts, sequence.output_token_ids = [], [3, 7, 5]

    batch = builder.build(a_step(Scheduled(sequence, 4, 1, reaches_target=True)))

    assert batch.token_ids.tolist() == [5]
