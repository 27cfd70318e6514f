"""The arrays of a step."""

from __future__ import annotations

import pytest

from server_reference.core import SamplingParams, Sequence
from server_reference.engine.batch_builder import build_batch
from server_reference.engine.scheduler import Scheduled, Step


def a_sequence(prompt, *, table, output=(), max_tokens=8):
    params = SamplingParams(max_tokens=max_tokens)
    sequence = Sequence(id="s", tenant="t", prompt_token_ids=prompt, params=params, arrival=0)
    sequence.output_token_ids, sequence.block_table = list(output), table
    return sequence


@pytest.fixture
def batch():
    """A decode at position 4 in blocks 5 and 2, and a chunk of 3 from position 1 in block 7."""
    decode = a_sequence([10, 11, 12, 13], table=[5, 2], output=[14])
    prefill = a_sequence([20, 21, 22, 23, 24], table=[7])
    step = Step([Scheduled(decode, 4, 1, reaches_target=True), Scheduled(prefill, 1, 3)])
    return build_batch(step, block_size=4)


def test_tokens_and_positions_lie_end_to_end(batch):
    assert batch.token_ids.tolist() == [14, 21, 22, 23]
    assert batch.positions.tolist() == [4, 1, 2, 3]
    assert batch.query_start.tolist() == [0, 1, 4]
    assert batch.num_decodes == 1


def test_each_token_has_its_slot(batch):
    assert batch.slots.tolist() == [2 * 4 + 0, 7 * 4 + 1, 7 * 4 + 2, 7 * 4 + 3]


def test_a_context_includes_the_new_tokens(batch):
    assert batch.context_lens.tolist() == [5, 4]


def test_a_short_block_table_repeats_its_own_first_block(batch):
    """What lies past its end is read and masked: it must not be another sequence's."""
    assert batch.block_table.tolist() == [[5, 2], [7, 7]]


def test_only_rows_that_reach_their_target_are_sampled(batch):
    assert batch.sample_rows.tolist() == [0]
    assert [entry.sequence.block_table for entry in batch.sampled] == [[5, 2]]


def test_a_sequence_that_asked_for_no_output_is_not_sampled():
    sequence = a_sequence([1, 2], table=[0], max_tokens=0)

    batch = build_batch(Step([Scheduled(sequence, 0, 2, reaches_target=True)]), block_size=4)

    assert batch.sample_rows.tolist() == []
    assert batch.sampled == []


def test_a_recomputed_sequence_spans_prompt_and_output():
    sequence = a_sequence([1, 2], table=[0, 1], output=[3, 4])

    batch = build_batch(Step([Scheduled(sequence, 0, 4, reaches_target=True)]), block_size=2)

    assert batch.token_ids.tolist() == [1, 2, 3, 4]
    assert batch.sample_rows.tolist() == [3]
