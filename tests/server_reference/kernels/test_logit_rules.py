"""Logits after penalties, bias, grammar and ban."""

from __future__ import annotations

import pytest
import torch

from server_reference.kernels.logit_rules import apply_rules
from tests.server_reference.engine.sampling import INF, a_draw, a_mask, ruled, wide_logits


def changed(row, **options):
    return apply_rules(torch.tensor([row]), [a_draw(**options)])[0].tolist()


def test_without_a_rule_the_logits_are_the_same_memory():
    logits = wide_logits()[None]

    assert apply_rules(logits, [a_draw(prompt=[1], output=[2], top_p=0.5)]) is logits


def test_the_repetition_penalty_divides_above_zero_and_multiplies_below():
    row = changed([2.0, -2.0, 2.0, 2.0], repetition_penalty=2.0, prompt=[0, 1, 1], output=[0, 2])

    assert row == [1.0, -4.0, 1.0, 2.0]


def test_the_frequency_penalty_counts_the_output_only():
    row = changed([1.0, 1.0, 1.0], frequency_penalty=0.5, prompt=[2], output=[0, 1, 1])

    assert row == [0.5, 0.0, 1.0]


def test_the_presence_penalty_is_taken_once():
    assert changed([1.0, 1.0], presence_penalty=0.5, output=[1, 1, 1]) == [1.0, 0.5]


def test_penalties_come_before_the_bias():
    assert changed([4.0], repetition_penalty=2.0, prompt=[0], logit_bias=((0, 1.0),)) == [3.0]


def test_a_token_named_twice_gets_both_biases():
    assert changed([0.0, 0.0], logit_bias=((1, 1.0), (1, 2.0))) == [0.0, 3.0]


def test_no_bias_brings_back_what_the_grammar_forbids():
    row = changed([0.0, 0.0], logit_bias=((1, 100.0),), allowed=a_mask([0], 2))

    assert row == [0.0, -INF]


def test_banned_tokens_cannot_come():
    assert changed([0.0, 5.0, 0.0], banned={1}) == [0.0, -INF, 0.0]


def test_what_is_banned_may_come_where_a_grammar_allows_nothing_else():
    """An output that is complete ends, whatever `min_tokens`."""
    row = changed([0.0, 5.0, 0.0], banned={1}, allowed=a_mask([1], 3))

    assert row == [-INF, 5.0, -INF]


@pytest.mark.parametrize(("mask_size", "allowed"), [(32, [1]), (128, [1, 100])])
def test_a_grammar_of_fewer_or_more_tokens_than_the_model_fits(mask_size, allowed):
    """Heads are padded, and tokenizers may know tokens that the head lacks."""
    row = changed([1.0] * 64, allowed=a_mask(allowed, mask_size))

    assert [token for token, logit in enumerate(row) if logit > -INF] == [1]


def test_the_first_and_the_last_token_of_each_row_are_its_own():
    """Places are counted through all rows."""
    draws = [
        a_draw(logit_bias=((0, 1.0), (9, 2.0)), frequency_penalty=1.0, output=[9]),
        a_draw(),
        a_draw(repetition_penalty=2.0, prompt=[0, 9], presence_penalty=0.5, output=[0]),
    ]
    rows = wide_logits(vocab_size=30).view(3, 10)

    logits = apply_rules(rows, draws)

    for row, draw, its in zip(rows, draws, logits, strict=True):
        torch.testing.assert_close(its, torch.from_numpy(ruled(row, draw)).float())


def test_long_histories_and_many_biases_are_as_token_by_token():
    ids = torch.randint(0, 500, (3000,), generator=torch.Generator().manual_seed(1)).tolist()
    row = wide_logits(vocab_size=500)
    draw = a_draw(
        prompt=ids[:2000],
        output=ids[2000:],
        repetition_penalty=1.2,
        frequency_penalty=0.1,
        presence_penalty=-0.3,
        logit_bias=tuple((token, token / 100) for token in range(0, 500, 2)),
    )

    (logits,) = apply_rules(row[None], [draw])

    torch.testing.assert_close(logits, torch.from_numpy(ruled(row, draw)).float())
