"""Log-probabilities of tokens."""

from __future__ import annotations

import pytest
import torch

from server_reference.kernels.logprobs import prompt_logprobs, token_logprobs
from tests.server_reference.engine.sampling import INF, wide_logits


def test_they_are_natural_logarithms_of_the_softmax():
    logits = torch.stack([wide_logits(seed=seed, scale=3.0) for seed in range(2)])
    expected = logits.double().log_softmax(-1)

    told = token_logprobs(logits, torch.tensor([5, 999]), [0, 0])

    assert [one.token_id for one in told] == [5, 999]
    assert told[0].logprob == pytest.approx(expected[0, 5].item(), abs=1e-5)
    assert told[1].logprob == pytest.approx(expected[1, 999].item(), abs=1e-5)


def test_each_row_is_told_as_many_of_the_likeliest_as_it_asks_for():
    logits = torch.stack([wide_logits(), wide_logits(), wide_logits()])
    values, ids = wide_logits().double().log_softmax(-1).sort(descending=True)

    told = token_logprobs(logits, torch.tensor([0, 0, 0]), [0, 3, 20])

    assert [len(one.top) for one in told] == [0, 3, 20]
    assert [token for token, _ in told[2].top] == ids[:20].tolist()
    assert [value for _, value in told[1].top] == pytest.approx(values[:3].tolist(), abs=1e-5)


def test_they_do_not_depend_on_the_rows_beside_them():
    """Threads share out the sum over one row, but not that over a row of several."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    logits = wide_logits(vocab_size=12 * 151_936, scale=2.0).view(12, -1)
    tokens = logits.argmin(-1)

    together = token_logprobs(logits, tokens, [0] * 12)
    rows = zip(logits.split(1), tokens.split(1), strict=True)
    alone = [one for row, token in rows for one in token_logprobs(row, token, [0])]
    torch.set_num_threads(before)

    assert alone == together


def test_equally_likely_tokens_are_told_by_id():
    row = torch.zeros(300)
    row[[280, 7, 150]] = 1.0

    (told,) = token_logprobs(row[None], torch.tensor([0]), [2])

    assert [token for token, _ in told.top] == [7, 150]


def test_a_small_vocabulary_is_told_whole():
    (told,) = token_logprobs(torch.zeros(1, 3), torch.tensor([1]), [20])

    assert [token for token, _ in told.top] == [0, 1, 2]


def test_an_impossible_token_has_minus_infinity():
    (told,) = token_logprobs(torch.tensor([[0.0, -INF]]), torch.tensor([1]), [2])

    assert told.logprob == -INF
    assert told.top == ((0, 0.0), (1, -INF))


def test_a_prompts_tokens_are_told_by_the_row_before_each():
    logits = torch.tensor([[0.0, 1.0], [1.0, 0.0]])

    told = prompt_logprobs(logits, [1, 1], 1)

    likely = pytest.approx(-0.31326, abs=1e-4)
    unlikely = pytest.approx(-1.31326, abs=1e-4)
    assert [one.logprob for one in told] == [likely, unlikely]
    assert [one.top for one in told] == [((1, likely),), ((0, likely),)]


def test_no_rows_tell_nothing():
    assert prompt_logprobs(torch.empty(0, 9), [], 3) == []
