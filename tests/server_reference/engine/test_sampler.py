"""How a token is drawn."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from server_reference.core import SamplingParams
from server_reference.engine.sampler import Draw, gumbel_noise, sample, token_hashes

NAN, INF = float("nan"), float("inf")


def a_draw(*, seed=0, index=0, **params):
    return Draw(SamplingParams(max_tokens=1, **params), seed, index)


def drawn(row, count, **params):
    """How often each token comes in `count` draws from one row of logits."""
    logits = torch.tensor([row] * count)
    tokens = sample(logits, [a_draw(index=index, **params) for index in range(count)])
    return torch.bincount(torch.tensor(tokens), minlength=len(row)) / count


def wide_logits(*, vocab_size=1000, seed=0, scale=1.0):
    return torch.randn(vocab_size, generator=torch.Generator().manual_seed(seed)) * scale


def kept_by_sorting(logits, *, temperature=1.0, top_k=None, top_p=1.0):
    """The plain way: sort all, keep `top_k`, then until the sum crosses `top_p`."""
    scores, ids = (logits / temperature).sort(descending=True, stable=True)
    mass = scores[:top_k].softmax(-1)
    keep = mass.cumsum(-1) - mass < top_p
    return set(ids[: len(keep)][keep].tolist())


def argmax_with_noise(logits, draw):
    """The plain way: noise on every token, then the largest of those that are kept."""
    params = draw.params
    kept = kept_by_sorting(
        logits, temperature=params.temperature, top_k=params.top_k, top_p=params.top_p
    )
    noise = gumbel_noise(token_hashes([draw], torch.arange(len(logits)))[0])
    noisy = logits / params.temperature + noise
    return max(kept, key=lambda token: noisy[token].item())


def test_temperature_zero_takes_the_likeliest():
    assert sample(torch.tensor([[0.0, 3.0, 1.0]]), [a_draw(temperature=0.0)]) == [1]


def test_draws_follow_the_probabilities():
    shares = drawn([0.0, 1.0, 2.0], 4000)

    expected = torch.tensor([0.0, 1.0, 2.0]).softmax(-1)
    torch.testing.assert_close(shares, expected, atol=0.025, rtol=0)


def test_a_low_temperature_sharpens():
    shares = drawn([0.0, 1.0, 2.0], 2000, temperature=0.5)

    expected = torch.tensor([0.0, 2.0, 4.0]).softmax(-1)
    torch.testing.assert_close(shares, expected, atol=0.025, rtol=0)


def test_top_k_keeps_the_likeliest_and_their_proportions():
    shares = drawn([0.0, 1.0, 2.0], 2000, top_k=2)

    expected = torch.tensor([-INF, 1.0, 2.0]).softmax(-1)
    torch.testing.assert_close(shares, expected, atol=0.03, rtol=0)


def test_top_p_keeps_the_token_that_crosses_it():
    """Without it the sum would stay below what was asked for."""
    shares = drawn(torch.tensor([0.6, 0.3, 0.1]).log().tolist(), 2000, top_p=0.7)

    torch.testing.assert_close(shares, torch.tensor([2 / 3, 1 / 3, 0.0]), atol=0.03, rtol=0)


@pytest.mark.parametrize("top_p", [0.0, 1e-50, 1e-6])
def test_a_tiny_top_p_still_keeps_one_token(top_p):
    assert drawn([0.0, 1.0, 0.5], 50, top_p=top_p).tolist() == [0.0, 1.0, 0.0]


def test_top_p_is_taken_of_what_top_k_left():
    """0.5 of 0.5 + 0.3 is 0.625: it alone reaches 0.6, and would not of the whole."""
    shares = drawn(torch.tensor([0.5, 0.3, 0.2]).log().tolist(), 200, top_k=2, top_p=0.6)

    assert shares.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="everything"),
        pytest.param({"temperature": 3.0}, id="hot"),
        pytest.param({"top_k": 40}, id="top-k-within-the-candidates"),
        pytest.param({"top_k": 200}, id="top-k-beyond-them"),
        pytest.param({"top_k": 5000}, id="top-k-beyond-the-vocabulary"),
        pytest.param({"top_k": 5000, "top_p": 0.95}, id="top-k-beyond-it-and-top-p"),
        pytest.param({"top_p": 0.3}, id="top-p-within-the-candidates"),
        pytest.param({"top_p": 0.95}, id="top-p-beyond-them"),
        pytest.param({"top_k": 200, "top_p": 0.9, "temperature": 0.7}, id="all-three"),
    ],
)
def test_a_draw_equals_noise_on_every_token_and_a_sort(params):
    """The candidates are a shortcut, not an approximation."""
    draws = [a_draw(seed=7, index=index, **params) for index in range(60)]
    rows = [wide_logits(seed=index, scale=1.5) for index in range(60)]

    tokens = sample(torch.stack(rows), draws)

    assert tokens == [argmax_with_noise(row, draw) for row, draw in zip(rows, draws, strict=True)]


def test_of_equal_logits_at_the_edge_of_top_k_the_first_ones_are_kept():
    """In bf16 many are equal."""
    draws = [a_draw(index=index, top_k=200, temperature=4.0) for index in range(60)]
    rows = [(wide_logits(seed=index, scale=1.5) * 2).round() / 2 for index in range(60)]

    tokens = sample(torch.stack(rows), draws)

    assert tokens == [argmax_with_noise(row, draw) for row, draw in zip(rows, draws, strict=True)]


@given(st.integers(0, 2**64 - 1), st.integers(0, 5000), st.sampled_from([None, 3, 100]))
def test_a_draw_does_not_depend_on_the_rest_of_the_batch(seed, index, top_k):
    row, others = wide_logits(), [wide_logits(seed=1), wide_logits(seed=2)]
    draw = a_draw(seed=seed, index=index, top_k=top_k, top_p=0.5)

    (alone,) = sample(row[None], [draw])
    _, among, _ = sample(
        torch.stack([others[0], row, others[1]]),
        [a_draw(temperature=0.0), draw, a_draw(top_p=0.5)],
    )

    assert alone == among


@pytest.mark.parametrize("changed", [{"seed": 1}, {"index": 1}])
def test_another_seed_or_index_draws_other_noise(changed):
    ids = torch.arange(1000)

    one = token_hashes([a_draw()], ids)
    other = token_hashes([a_draw(**changed)], ids)

    assert (one == other).sum() == 0


def test_noise_is_gumbel_distributed_and_finite():
    draws = [a_draw(seed=seed) for seed in range(50)]
    noise = gumbel_noise(token_hashes(draws, torch.arange(2000).expand(50, -1)))

    assert noise.isfinite().all()
    assert abs(noise.mean().item() - 0.5772) < 0.02
    assert abs(noise.var().item() - 1.6449) < 0.05


def test_the_extreme_hashes_have_finite_noise():
    extremes = torch.tensor([0, -1, 2**31 - 1, -(2**31)], dtype=torch.int32)

    assert gumbel_noise(extremes).isfinite().all()


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param([0.0, NAN, 1.0], id="one-nan"),
        pytest.param([INF, 0.0, 0.0], id="infinite"),
        pytest.param([-INF, -INF, -INF], id="nothing-possible"),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_no_numbers_fails_alone(broken, temperature):
    logits = torch.tensor([[0.0, 9.0, 1.0], broken])
    draw = a_draw(temperature=temperature, top_p=0.5)

    assert sample(logits, [draw, draw]) == [1, None]


def test_a_vanishing_temperature_is_greedy_and_not_infinite():
    assert sample(torch.tensor([[0.0, 3.0, 1.0]]), [a_draw(temperature=1e-38)]) == [1]
