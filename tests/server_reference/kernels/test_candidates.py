"""The likeliest tokens, without a sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from server_reference.kernels.candidates import Blocks
from tests.server_reference.engine.sampling import INF, NAN, wide_logits


@pytest.mark.parametrize("vocab_size", [1, 63, 64, 65, 259, 4096, 5000])
@pytest.mark.parametrize("count", [1, 64, 200])
def test_the_top_is_that_of_a_sort(vocab_size, count):
    logits = torch.stack([wide_logits(vocab_size=vocab_size, seed=seed) for seed in range(3)])
    expected, order = logits.sort(descending=True, stable=True)
    known = min(count, vocab_size)

    values, ids = Blocks.of(logits).top(count)

    np.testing.assert_array_equal(values[:, :known], expected[:, :known])
    np.testing.assert_array_equal(ids[:, :known], order[:, :known])


def test_equal_logits_come_by_id_but_for_those_at_the_edge():
    logits = (wide_logits(vocab_size=4096) * 2).round() / 2
    order = logits.argsort(descending=True, stable=True).numpy()

    values, ids = Blocks.of(logits[None]).top(64)

    sure = values[0] > values[0, -1]
    assert 5 < sure.sum() < 64
    np.testing.assert_array_equal(ids[0, sure], order[: sure.sum()])
    assert (values[0, ~sure] == values[0, -1]).all()


def test_fewer_possible_tokens_than_asked_for_leave_the_rest_impossible():
    logits = torch.full((1, 1000), -INF)
    logits[0, [900, 7]] = torch.tensor([2.0, 1.0])

    values, ids = Blocks.of(logits).top(64)

    assert ids[0, :2].tolist() == [900, 7]
    assert (values[0, 2:] == -INF).all()


def test_the_first_of_the_likeliest_is_the_maximum():
    logits = torch.zeros(2, 300)
    logits[0, [299, 70, 71]] = 1.0

    assert Blocks.of(logits).argmax().tolist() == [70, 0]


def test_a_nan_is_a_peak():
    logits = torch.zeros(1, 300)
    logits[0, 123] = NAN

    assert Blocks.of(logits).peaks.isnan().any()


def test_chosen_rows_keep_their_order():
    blocks = Blocks.of(torch.arange(4.0)[:, None].expand(4, 100))

    assert blocks.of_rows([3, 1]).peaks[:, 0].tolist() == [3.0, 1.0]
    assert blocks.of_rows([0, 1, 2, 3]) is blocks
