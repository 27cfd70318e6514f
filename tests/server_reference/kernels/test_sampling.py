"""How a token is drawn on a device: as on a host."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server_reference.engine.sampling import INF, NAN, a_draw, a_mask, wide_logits
from tests.server_reference.kernels.interpreted import guarded, is_intact, shuffled

from server_reference.kernels import sampling  # isort: skip
from server_reference.kernels.packed_draws import PackedDraws  # isort: skip
from server_reference.kernels.reference import sampling as in_float64  # isort: skip
from server_reference.kernels.sampler import sample  # isort: skip

PENALTIES = {"repetition_penalty": 1.3, "frequency_penalty": 0.7, "presence_penalty": 0.1}


def packed(logits, draws):
    return PackedDraws.of(draws, vocab_size=logits.shape[1])


def drawn(logits, draws):
    return sampling.draw_tokens(guarded(logits), packed(logits, draws)).tolist()


def assert_as_on_the_host(logits, draws):
    assert drawn(logits, draws) == sample(logits, draws).tokens.tolist()


def rows_of(num_rows, *, step=0.0, **others):
    rows = torch.stack([wide_logits(seed=seed, **others) for seed in range(num_rows)])
    return (rows / step).round() * step if step else rows


@pytest.mark.parametrize("vocab_size", [1, 3, 4, 5, 63, 64, 65, 4095, 4096, 4097, 9000])
def test_the_likeliest_is_that_of_the_twin(vocab_size):
    logits = guarded(rows_of(3, vocab_size=vocab_size))

    assert torch.equal(sampling.argmax(logits), in_float64.argmax(logits))


@pytest.mark.parametrize("places", [[130, 131, 700], [64, 2], [4095, 4096, 4999]])
def test_of_equally_likely_tokens_the_first_is_taken(places):
    logits = torch.zeros(1, 5000)
    logits[0, places] = 5.0

    assert sampling.argmax(logits).tolist() == [min(places)]


PARAMS = [
    pytest.param({}, id="everything"),
    pytest.param({"temperature": 3.0}, id="hot"),
    pytest.param({"temperature": 1e-4}, id="cold"),
    pytest.param({"top_k": 1}, id="top-k-of-one"),
    pytest.param({"top_k": 40}, id="top-k-within-the-candidates"),
    pytest.param({"top_k": 128}, id="top-k-of-about-all-candidates"),
    pytest.param({"top_k": 700}, id="top-k-beyond-them"),
    pytest.param({"top_k": 9000, "top_p": 0.95}, id="top-k-beyond-the-vocabulary"),
    pytest.param({"top_k": 700, "top_p": 0.95}, id="top-p-of-top-k-beyond-the-candidates"),
    pytest.param({"top_p": 0.3}, id="top-p-within-the-candidates"),
    pytest.param({"top_p": 0.95}, id="top-p-beyond-them"),
    pytest.param({"top_p": 0.2, "temperature": 900.0}, id="top-p-of-a-flat-row"),
    pytest.param({"min_p": 0.1}, id="min-p-within-the-candidates"),
    pytest.param({"min_p": 0.001, "temperature": 2.0}, id="min-p-beyond-them"),
    pytest.param({"min_p": 0.01, "top_p": 0.9, "temperature": 2.0}, id="min-p-and-top-p"),
    pytest.param({"top_k": 200, "top_p": 0.9, "min_p": 0.003, "temperature": 1.5}, id="all"),
]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param({"vocab_size": 1000}, id="small"),
        pytest.param({"vocab_size": 5000}, id="of-two-programs"),
        pytest.param({"vocab_size": 5000, "step": 0.5}, id="many-are-equal"),
    ],
)
def test_a_draw_is_that_of_the_host(rows, params):
    draws = [a_draw(seed=7, index=index, **params) for index in range(4)]

    assert_as_on_the_host(rows_of(4, scale=1.5, **rows), draws)


@pytest.mark.parametrize("params", [{}, {"top_k": 9}, {"top_p": 0.5}, {"min_p": 0.1}, PENALTIES])
def test_a_draw_is_that_of_the_twin(params):
    logits = rows_of(4)
    draws = [a_draw(index=index, output=[5, 6, 5], banned=[3], **params) for index in range(3)]
    draws.append(a_draw(index=3, allowed=a_mask(range(0, 900, 7), 1000), **params))

    tokens = drawn(logits, draws)

    assert tokens == in_float64.draw_tokens(logits, packed(logits, draws)).tolist()


@pytest.mark.parametrize("params", [{}, {"top_p": 0.5}, {"top_k": 600, "top_p": 0.5}])
def test_more_candidates_than_there_is_room_for(params):
    """All tokens of some blocks are likelier than all others: too many lie above the limit."""
    logits = rows_of(3, vocab_size=9000)
    logits[:, 640:1664] += 20.0

    assert_as_on_the_host(logits, [a_draw(index=index, **params) for index in range(3)])


@pytest.mark.parametrize("params", [{}, {"top_k": 3}, {"top_p": 0.3}, {"top_p": 0.0}, {"min_p": 1}])
def test_a_flat_row_has_no_candidates(params):
    logits = torch.full((3, 5000), 2.5)

    assert_as_on_the_host(logits, [a_draw(index=index, **params) for index in range(3)])


@pytest.mark.parametrize("params", [{"temperature": 1000.0}, {"top_p": 0.6}, {"top_k": 2}])
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_extremes_are_drawn_from_as_on_the_host(scale, params):
    logits = rows_of(3, scale=scale)
    logits[1] -= 1e8
    logits[2, 1:] = -INF

    assert_as_on_the_host(logits, [a_draw(index=index, **params) for index in range(3)])


@st.composite
def cases(draw):
    """A row, and anything that can be asked of it."""
    vocab_size = draw(st.sampled_from([1, 2, 33, 64, 130, 700]))
    ids = st.integers(0, vocab_size - 1)
    row = wide_logits(vocab_size=vocab_size, seed=draw(st.integers(0, 99)))
    row = row * draw(st.sampled_from([0.0, 0.1, 1.0, 4.0, 30.0]))
    if draw(st.booleans()):
        row = (row * 4).round() / 4
    row[draw(st.lists(ids, max_size=vocab_size - 1))] = -INF
    allowed = draw(st.none() | st.lists(ids, min_size=1))
    return row, a_draw(
        seed=draw(st.integers(0, 2**64 - 1)),
        index=draw(st.integers(0, 9)),
        prompt=draw(st.lists(ids, max_size=9)),
        output=draw(st.lists(ids, max_size=9)),
        allowed=None if allowed is None else a_mask(allowed, vocab_size),
        banned=draw(st.lists(ids, max_size=9)),
        temperature=draw(st.sampled_from([0.0, 0.3, 1.0, 2.5, 100.0])),
        top_k=draw(st.none() | st.integers(1, 800)),
        top_p=draw(st.sampled_from([0.0, 0.11, 0.51, 0.9, 0.999, 1.0])),
        min_p=draw(st.sampled_from([0.0, 0.0, 0.01, 0.3, 1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 0.5, 1.3])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.4, -2.0])),
        presence_penalty=draw(st.sampled_from([0.0, 0.7])),
        logit_bias=tuple(draw(st.lists(st.tuples(ids, st.sampled_from([-100.0, 1.5, 100.0]))))),
    )


@settings(max_examples=60)
@given(cases(), st.integers(0, 99))
def test_whatever_is_asked_the_draw_is_that_of_the_host(case, seed):
    """In whatever order the programs run."""
    row, draw = case

    with shuffled(seed):
        assert_as_on_the_host(torch.stack((row, row)), [draw, a_draw(index=3, top_p=0.7)])


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
    logits = torch.tensor([[0.0, 99.0, 1.0], broken])
    good = a_draw(temperature=temperature, top_p=0.5)
    bad = a_draw(temperature=temperature, top_p=0.5, allowed=allowed)

    assert drawn(logits, [good, bad]) == [1, -1]


def test_what_is_next_to_the_logits_stays():
    logits = guarded(rows_of(2))

    sampling.draw_tokens(logits, packed(logits, [a_draw(top_p=0.5), a_draw(top_k=5)]))

    assert is_intact(logits)


@pytest.mark.parametrize(
    ("logits", "told"),
    [
        pytest.param(torch.zeros(2, 5).half(), "logits must be .* of float32", id="half"),
        pytest.param(torch.zeros(5, 2).T, "logits must be contiguous", id="strided"),
        pytest.param(
            torch.zeros(3, 5),
            r"params must be contiguous \[3, 6\] of float64, not \[2, 6\]",
            id="rows",
        ),
    ],
)
def test_what_does_not_fit_is_refused(logits, told):
    with pytest.raises(ValueError, match=told):
        sampling.draw_tokens(logits, packed(logits, [a_draw()] * 2))


def test_parameters_that_lie_apart_are_refused():
    logits = rows_of(2)
    draws = packed(logits, [a_draw()] * 2)
    apart = torch.stack((draws.params, draws.params), 2)[..., 0]

    with pytest.raises(ValueError, match=r"params must be contiguous .* strides \(12, 2\)"):
        sampling.draw_tokens(logits, PackedDraws(apart, False))
