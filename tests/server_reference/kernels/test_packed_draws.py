"""Draws as arrays."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest

from server_reference.kernels.noise import draw_key
from server_reference.kernels.packed_draws import PackedDraws
from tests.server_reference.engine.sampling import a_draw, a_mask


def packed(*draws, vocab_size=100):
    return PackedDraws.of(draws, vocab_size=vocab_size)


def test_params_are_in_their_places():
    key = draw_key(2**64 - 1, 5)
    draw = a_draw(seed=2**64 - 1, index=5, temperature=3.0, top_k=7, top_p=0.9, min_p=0.1)

    low, high, scale, *others = packed(draw).params[0].tolist()

    assert (int(low), int(high)) == (key & 0xFFFFFFFF, key >> 32)
    assert scale == np.float32(1 / 3.0)
    assert others == [np.float32(log(0.1)), 7, 0.9]


def test_what_keeps_all_says_so():
    assert packed(a_draw(), a_draw(top_k=500)).params[:, 3:].tolist() == [[-inf, 112, 1.0]] * 2


@pytest.mark.parametrize(("temperatures", "is_greedy"), [([0.0, 1e-6], True), ([0.0, 1.0], False)])
def test_a_greedy_row_has_no_scale(temperatures, is_greedy):
    draws = packed(*(a_draw(temperature=each) for each in temperatures))

    assert draws.is_greedy == is_greedy
    assert draws.params[:, 2].tolist() == [0.0, float(temperatures[1] == 1.0)]


def test_rows_without_rules_have_none():
    draws = packed(a_draw(top_k=3), a_draw(prompt=[1], output=[2]))

    assert (draws.penalties, draws.bias, draws.masks) == (None, None, None)


def test_penalties_come_with_the_tokens_before():
    penalties = packed(
        a_draw(prompt=[9]),
        a_draw(prompt=[1, 2], output=[3], repetition_penalty=1.5),
        a_draw(output=[4, 5], frequency_penalty=0.5, presence_penalty=-1.0),
    ).penalties

    assert penalties.rows.tolist() == [1, 2]
    assert penalties.factors.tolist() == [[1.5, 0.0, 0.0], [1.0, 0.5, -1.0]]
    assert penalties.history.tolist() == [[1, 2, 3], [4, 5, 0]]
    assert penalties.places.tolist() == [[0, 2, 3], [1, 0, 2]]


def test_each_token_is_biased_once_and_a_ban_is_last():
    bias = packed(a_draw(), a_draw(logit_bias=((7, 1.0), (8, 2.0), (7, 0.5)), banned=[8])).bias

    assert bias.places.tolist() == [[1, 7], [1, 8]]
    assert bias.values.tolist() == [[1.0, 0.5], [2.0, -inf]]


@pytest.mark.parametrize(
    ("banned", "left"),
    [
        pytest.param([], {3, 40}, id="none"),
        pytest.param([3, 5, 300], {40}, id="some"),
        pytest.param([3, 40], {3, 40}, id="all-that-the-grammar-allows"),
    ],
)
def test_a_ban_is_in_the_mask_of_a_grammar(banned, left):
    draws = packed(a_draw(), a_draw(allowed=a_mask([3, 40], 100), banned=banned))

    words = draws.masks.bits[0].numpy().view(np.uint8)
    assert set(np.flatnonzero(np.unpackbits(words, bitorder="little")).tolist()) == left
    assert draws.masks.rows.tolist() == [1]
    assert draws.bias is None
