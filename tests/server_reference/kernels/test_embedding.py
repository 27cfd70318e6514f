"""Rows of the embedding matrix."""

from __future__ import annotations

import pytest
import torch

from tests.server_reference.kernels.interpreted import guarded, shuffled

from server_reference.kernels.embedding import embed  # isort: skip
from server_reference.kernels.reference.embedding import embed as in_float64  # isort: skip


def a_table(vocab_size=11, hidden=20, dtype=torch.float32):
    return guarded(torch.randn(vocab_size, hidden).to(dtype))


def assert_agrees(token_ids, table, **others):
    token_ids = guarded(torch.tensor(token_ids, dtype=torch.int64))
    expected = in_float64(token_ids, table, **others)

    torch.testing.assert_close(embed(token_ids, table, **others), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1.0, 33.9], ids=["", "scaled"])
@pytest.mark.parametrize("hidden", [1, 20, 1023, 1024, 1025])
def test_agrees_with_the_twin(hidden, scale, dtype):
    assert_agrees([3, 0, 10, 3], a_table(hidden=hidden, dtype=dtype), scale=scale)


def test_no_tokens_are_no_rows():
    assert_agrees([], a_table())


def test_a_token_that_the_host_does_not_know_is_the_newest_of_its_row():
    newest = guarded(torch.tensor([7, 2, 9]))

    assert_agrees([-1, 5, -3, -2], a_table(), newest=newest)


def test_a_sequence_that_could_draw_none_gets_the_first():
    """It ends, and what runs ahead with it is dropped."""
    table = a_table()

    rows = embed(torch.tensor([-2]), table, newest=torch.tensor([5, -1]))

    assert torch.equal(rows, table[:1])


def test_the_order_of_programs_does_not_matter():
    with shuffled(2):
        assert_agrees([5, -1, 3, -2], a_table(hidden=1500), newest=torch.tensor([1, 2]))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param({"token_ids": torch.zeros(3).int()}, "token_ids must be", id="int32"),
        pytest.param({"newest": torch.zeros(3, 1).long()}, "newest must be", id="matrix"),
        pytest.param({"token_ids": torch.zeros(6).long()[::2]}, "token_ids must be", id="apart"),
        pytest.param({"newest": torch.zeros(6).long()[::2]}, "newest must be", id="newest-apart"),
        pytest.param({"table": torch.zeros(3, 4).int()}, "table must be .* float16", id="integers"),
        pytest.param({"table": torch.zeros(3, 4).T}, "table must be contiguous", id="strided"),
    ],
)
def test_what_does_not_fit_is_refused(changed, told):
    with pytest.raises(ValueError, match=told):
        embed(**{"token_ids": torch.zeros(3).long(), "table": a_table()} | changed)
