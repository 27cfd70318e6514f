"""How a token is drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from server_reference.kernels.sampler import sample
from tests.server_reference.engine.sampling import (
    INF,
    NAN,
    a_draw,
    a_mask,
    plainly_drawn,
    wide_logits,
)


def sampled(logits, draws):
    return sample(logits, draws).host_tokens()


def drawn(row, count, **params):
    """How often each token comes in `count` draws from one row of logits."""
    logits = torch.tensor([row] * count)
    tokens = sampled(logits, [a_draw(index=index, **params) for index in range(count)])
    return torch.bincount(torch.tensor(tokens), minlength=len(row)) / count


def test_temperature_zero_takes_the_likeliest():
    assert sampled(torch.tensor([[0.0, 3.0, 1.0]]), [a_draw(temperature=0.0)]) == [1]


def test_of_equally_likely_tokens_greedy_takes_the_first():
    row = torch.zeros(1000)
    row[[130, 131, 700]] = 5.0

    assert sampled(row[None], [a_draw(temperature=0.0)]) == [130]


def test_tokens_are_a_tensor_and_the_logits_stay():
    logits = wide_logits()[None]
    before = logits.clone()

    result = sample(logits, [a_draw(logit_bias=((3, 100.0),))])

    assert result.tokens.tolist() == [3]
    assert torch.equal(logits, before)


def test_draws_follow_the_probabilities():
    shares = drawn([0.0, 1.0, 2.0], 4000)

    expected = torch.tensor([0.0, 1.0, 2.0]).softmax(-1)
    torch.testing.assert_close(shares, expected, atol=0.025, rtol=0)


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        pytest.param({}, 300, id="everything"),
        pytest.param({"temperature": 0.7}, 300, id="sharpened"),
        pytest.param({"top_k": 100}, 100, id="top-k-beyond-the-candidates"),
        pytest.param({"min_p": 0.2}, None, id="min-p"),
    ],
)
def test_draws_from_many_tokens_follow_the_probabilities(params, kept):
    """Chi-square: `X` of `n` degrees lies below `n + 5 sqrt(2 n)` but for one in 10,000."""
    row = wide_logits(vocab_size=300, scale=0.5)
    num_draws = 20_000
    scaled = row.double() / params.get("temperature", 1.0)
    if "min_p" in params:
        kept = int((scaled >= scaled.max() + np.log(params["min_p"])).sum())
    ids = scaled.argsort(descending=True, stable=True)[:kept]
    expected = scaled[ids].softmax(-1) * num_draws

    draws = [a_draw(seed=5, index=index, **params) for index in range(num_draws)]
    logits = row.expand(num_draws, -1)
    counts = torch.bincount(sample(logits, draws).tokens, minlength=300)[ids]

    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert counts.sum() == num_draws
    assert chi_square < kept - 1 + 5 * (2 * (kept - 1)) ** 0.5


def test_top_p_keeps_the_token_that_crosses_it():
    """Without it the sum would stay below what was asked for."""
    shares = drawn(torch.tensor([0.6, 0.3, 0.1]).log().tolist(), 2000, top_p=0.7)

    torch.testing.assert_close(shares, torch.tensor([2 / 3, 1 / 3, 0.0]), atol=0.03, rtol=0)


@pytest.mark.parametrize("top_p", [0.0, 1e-50, 1e-6])
@pytest.mark.parametrize("num_equal", [1, 100])
def test_a_tiny_top_p_still_keeps_one_token(top_p, num_equal):
    row = [0.0] + [1.0] * num_equal + [0.5] * 100

    shares = drawn(row, 50, top_p=top_p)

    assert shares[1] == 1.0


def test_top_p_is_taken_of_what_top_k_left():
    """0.5 of 0.5 + 0.3 is 0.625: it alone reaches 0.6, and would not of the whole."""
    shares = drawn(torch.tensor([0.5, 0.3, 0.2]).log().tolist(), 200, top_k=2, top_p=0.6)

    assert shares.tolist() == [1.0, 0.0, 0.0]


def test_top_p_is_taken_of_what_min_p_left():
    shares = drawn(torch.tensor([0.5, 0.3, 0.2]).log().tolist(), 200, min_p=0.5, top_p=0.6)

    assert shares.tolist() == [1.0, 0.0, 0.0]


def test_min_p_keeps_what_is_as_likely_as_its_share_of_the_likeliest():
    shares = drawn(torch.tensor([0.5, 0.3, 0.2]).log().tolist(), 2000, min_p=0.5)

    torch.testing.assert_close(shares, torch.tensor([0.625, 0.375, 0.0]), atol=0.03, rtol=0)


def test_scores_that_rounding_makes_equal_go_by_id():
    """Though their logits differ: a whole row, and a device, look at the scores."""
    logits, scale = torch.full((1000,), -50.0), np.float32(1 / 1.5)
    chain = np.float32(-1.75) + np.arange(64, dtype=np.float32) * np.float32(2**-23)
    at = int(np.flatnonzero(np.diff(chain * scale) == 0)[0])
    logits[[0, 1, 2]] = torch.tensor([0.0, *chain[at : at + 2]])

    shares = drawn(logits.tolist(), 50, top_k=2, temperature=1.5)

    assert chain[at] < chain[at + 1]
    assert shares[1] > 0
    assert shares[2] == 0


PARAMS = [
    pytest.param({}, id="everything"),
    pytest.param({"temperature": 3.0}, id="hot"),
    pytest.param({"top_k": 40}, id="top-k-within-the-candidates"),
    pytest.param({"top_k": 64}, id="top-k-of-all-candidates"),
    pytest.param({"top_k": 200}, id="top-k-beyond-them"),
    pytest.param({"top_k": 5000}, id="top-k-beyond-the-vocabulary"),
    pytest.param({"top_k": 5000, "top_p": 0.95}, id="top-k-beyond-it-and-top-p"),
    pytest.param({"top_p": 0.3}, id="top-p-within-the-candidates"),
    pytest.param({"top_p": 0.95}, id="top-p-beyond-them"),
    pytest.param({"top_p": 0.2, "temperature": 1e4}, id="top-p-of-a-flat-row"),
    pytest.param({"min_p": 0.1}, id="min-p-within-the-candidates"),
    pytest.param({"min_p": 0.001, "temperature": 2.0}, id="min-p-beyond-them"),
    pytest.param({"min_p": 0.01, "top_p": 0.9, "temperature": 2.0}, id="min-p-and-top-p"),
    pytest.param({"top_k": 200, "top_p": 0.9, "min_p": 0.003, "temperature": 1.5}, id="all"),
]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("step", [0.0, 0.5], ids=["all-differ", "many-are-equal"])
def test_a_draw_equals_noise_on_every_token_and_a_sort(params, step):
    """The candidates are a shortcut, not an approximation. In bf16 many logits are equal."""
    rows = [wide_logits(seed=seed, scale=1.5) for seed in range(60)]
    rows = [(row / step).round() * step if step else row for row in rows]
    draws = [a_draw(seed=7, index=index, **params) for index in range(60)]
    expected = [plainly_drawn(row, draw) for row, draw in zip(rows, draws, strict=True)]
    clear = [at for at, (_, is_clear) in enumerate(expected) if is_clear]

    tokens = sampled(torch.stack(rows), draws)

    assert len(clear) > 40
    assert [tokens[at] for at in clear] == [expected[at][0] for at in clear]


@st.composite
def cases(draw):
    """A row, and anything that can be asked of it."""
    vocab_size = draw(st.sampled_from([1, 2, 31, 32, 63, 64, 65, 130, 700]))
    ids = st.integers(0, vocab_size - 1)
    row = wide_logits(vocab_size=vocab_size, seed=draw(st.integers(0, 99)))
    row = row * draw(st.sampled_from([0.0, 0.1, 1.0, 4.0, 30.0]))
    if draw(st.booleans()):
        row = (row * 4).round() / 4
    hidden = draw(st.lists(ids, max_size=vocab_size - 1))
    row[hidden] = -INF
    shown = sorted({*range(vocab_size)} - {*hidden})
    allowed = draw(st.none() | st.lists(st.sampled_from(shown), min_size=1))
    return row, a_draw(
        seed=draw(st.integers(0, 2**64 - 1)),
        index=draw(st.integers(0, 9)),
        prompt=draw(st.lists(ids, max_size=9)),
        output=draw(st.lists(ids, max_size=9)),
        allowed=None if allowed is None else a_mask(allowed, vocab_size),
        banned=draw(st.lists(ids, max_size=9)),
        temperature=draw(st.sampled_from([0.0, 0.3, 1.0, 2.5, 100.0])),
        top_k=draw(st.none() | st.integers(1, 800)),
        top_p=draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.999, 1.0])),
        min_p=draw(st.sampled_from([0.0, 0.0, 0.01, 0.3, 1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 0.5, 1.3])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.4, -2.0])),
        presence_penalty=draw(st.sampled_from([0.0, 0.7])),
        logit_bias=tuple(draw(st.lists(st.tuples(ids, st.sampled_from([-100.0, 1.5, 100.0]))))),
    )


@given(cases())
def test_whatever_is_asked_the_draw_is_that_of_the_plain_way(case):
    row, draw = case
    expected, is_clear = plainly_drawn(row, draw) if _leaves_any(case) else (None, True)
    assume(is_clear)

    assert sampled(row[None], [draw]) == [expected]


def _leaves_any(case):
    row, draw = case
    return draw.allowed is not None or bool(
        {*np.flatnonzero(row.numpy() > -INF).tolist()} - {*draw.banned}
    )


@given(st.integers(0, 2**64 - 1), st.integers(0, 5000), st.sampled_from([None, 3, 100]))
def test_a_draw_does_not_depend_on_the_rest_of_the_batch(seed, index, top_k):
    row, others = wide_logits(), [wide_logits(seed=1), wide_logits(seed=2)]
    draw = a_draw(seed=seed, index=index, top_k=top_k, top_p=0.5)

    (alone,) = sampled(row[None], [draw])
    _, among, _ = sampled(
        torch.stack([others[0], row, others[1]]),
        [a_draw(temperature=0.0), draw, a_draw(top_p=0.5, logit_bias=((7, 9.0),))],
    )

    assert alone == among


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param([0.0, NAN, 1.0], id="one-nan"),
        pytest.param([INF, 0.0, 0.0], id="infinite"),
        pytest.param([-INF, -INF, -INF], id="nothing-possible"),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("allowed", [None, a_mask([0], 3)], ids=["", "behind-a-grammar"])
def test_a_row_that_is_no_numbers_fails_alone(broken, temperature, allowed):
    """Even if what is no number is nothing that could be drawn: the others come of it too."""
    logits = torch.tensor([[0.0, 9.0, 1.0], broken])
    good = a_draw(temperature=temperature, top_p=0.5, logprobs=1)
    bad = a_draw(temperature=temperature, top_p=0.5, allowed=allowed, logprobs=1)

    result = sample(logits, [good, bad])

    assert result.host_tokens() == [1, None]
    assert [told is None for told in result.host_logprobs()] == [False, True]


def test_logprobs_are_those_of_the_model_and_only_of_rows_that_ask():
    """Neither temperature nor bias is in them."""
    logits = torch.tensor([[0.0, 1.0, 2.0]] * 2)
    asks = a_draw(temperature=0.0, logit_bias=((0, 100.0),), logprobs=2)

    told, none = sample(logits, [asks, a_draw()]).host_logprobs()

    expected = logits[0].log_softmax(-1).tolist()
    assert none is None
    assert (told.token_id, told.logprob) == (0, pytest.approx(expected[0]))
    assert told.top == ((2, pytest.approx(expected[2])), (1, pytest.approx(expected[1])))


def test_a_vanishing_temperature_is_greedy_and_not_infinite():
    assert sampled(torch.tensor([[0.0, 3.0, 1.0]]), [a_draw(temperature=1e-38)]) == [1]
