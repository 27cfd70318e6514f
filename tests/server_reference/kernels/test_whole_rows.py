"""Draws from a whole row."""

from __future__ import annotations

import numpy as np
import pytest

from server_reference.kernels.noise import draw_key
from server_reference.kernels.whole_rows import Row, WholeRows
from tests.server_reference.engine.sampling import a_draw, plainly_drawn, wide_logits

NOBODY = (-1, -np.inf)
"""No token has been looked at."""


def of_row(row, draw):
    logits = row.numpy()
    return Row(logits, logits.max(), np.float32(1 / draw.params.temperature), draw.params)


def challenged(row, draw, leader):
    whole = WholeRows(len(row))
    return whole.challenge(
        of_row(row, draw),
        key=draw_key(draw.seed, draw.index),
        total=whole.total(of_row(row, draw)),
        leader=leader,
    )


@pytest.mark.parametrize("params", [{}, {"top_k": 3}, {"top_p": 0.4}, {"min_p": 0.2}])
def test_a_whole_row_needs_no_candidates(params):
    draws = [a_draw(seed=3, index=index, **params) for index in range(40)]
    rows = [wide_logits(seed=index) for index in range(40)]
    expected = [plainly_drawn(row, draw) for row, draw in zip(rows, draws, strict=True)]

    tokens = [challenged(row, draw, NOBODY) for row, draw in zip(rows, draws, strict=True)]

    assert sum(is_clear for _, is_clear in expected) > 30
    assert [token for token, (_, is_clear) in zip(tokens, expected, strict=True) if is_clear] == [
        token for token, is_clear in expected if is_clear
    ]


def test_a_leader_that_none_can_beat_stays():
    assert challenged(wide_logits(), a_draw(), (5, 40.0)) == 5


def test_a_challenger_that_is_not_kept_does_not_win():
    """Of a flat row, only the first token is kept."""
    row = wide_logits(scale=0.0)

    assert challenged(row, a_draw(top_k=1), (0, -5.0)) == 0


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        pytest.param({}, slice(None), id="all"),
        pytest.param({"top_k": 2}, slice(2), id="top-k"),
        pytest.param({"min_p": 0.3}, slice(3), id="min-p"),
        pytest.param({"top_k": 2, "min_p": 0.6}, slice(1), id="both"),
    ],
)
def test_the_mass_is_that_of_what_is_left(params, kept):
    masses = np.array([1.0, 0.5, 0.4, 0.1], np.float32)
    row = wide_logits(vocab_size=4).new_tensor(np.log(masses))

    total = WholeRows(4).total(of_row(row, a_draw(**params)))

    assert total == pytest.approx(masses[kept].sum())
