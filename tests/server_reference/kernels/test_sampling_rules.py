"""Penalties, bias and masks on a device."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server_reference.engine.sampling import INF, NAN, a_draw, a_mask, wide_logits
from tests.server_reference.kernels.interpreted import guarded, is_intact, shuffled

from server_reference.kernels import logit_rules  # isort: skip
from server_reference.kernels.packed_draws import PackedDraws  # isort: skip
from server_reference.kernels.sampling_rules import apply_rules  # isort: skip

PENALTIES = {"repetition_penalty": 1.3, "frequency_penalty": 0.7, "presence_penalty": 0.1}


def changed(logits, draws):
    return apply_rules(logits, PackedDraws.of(draws, vocab_size=logits.shape[1]))


def assert_as_on_the_host(logits, draws):
    expected = logit_rules.apply_rules(logits, draws)

    assert torch.equal(changed(guarded(logits), draws), expected)


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"repetition_penalty": 1.3}, id="repetition"),
        pytest.param({"repetition_penalty": 0.5}, id="encouraged"),
        pytest.param({"frequency_penalty": 0.7}, id="frequency"),
        pytest.param({"presence_penalty": -0.3}, id="presence"),
        pytest.param(PENALTIES, id="all"),
    ],
)
def test_penalties_are_those_of_the_host_to_the_bit(params):
    logits = torch.stack([wide_logits(vocab_size=500, seed=seed) * 3 for seed in range(4)])
    ids = torch.randint(500, (4, 3000)).tolist()
    draws = [
        a_draw(prompt=ids[0][:900], output=ids[0][900:], **params),
        a_draw(),
        a_draw(prompt=[7], output=[9] * 1500 + [7], **params),
        a_draw(prompt=[], output=[], **params),
    ]

    assert_as_on_the_host(logits, draws)


def test_bias_is_added_once_for_each_time_that_it_is_given():
    """One after the other, as that rounds."""
    bias = ((3, 0.1), (130, -5.0), (3, 0.2), (3, 1e-3), (0, 100.0))

    assert_as_on_the_host(torch.stack([wide_logits()] * 2), [a_draw(), a_draw(logit_bias=bias)])


@pytest.mark.parametrize("vocab_size", [1, 31, 32, 33, 1100])
def test_a_grammar_forbids_what_its_mask_leaves_out(vocab_size):
    logits = torch.stack([wide_logits(vocab_size=vocab_size)] * 3)
    some = sorted({0, vocab_size // 2, vocab_size - 1})

    assert_as_on_the_host(
        logits, [a_draw(), a_draw(allowed=a_mask(some, vocab_size)), a_draw(banned=[0])]
    )


def test_a_mask_may_be_shorter_or_longer_than_the_vocabulary():
    draws = [a_draw(allowed=a_mask([3], 40)), a_draw(allowed=a_mask([3, 99], 200))]

    assert_as_on_the_host(torch.stack([wide_logits(vocab_size=100)] * 2), draws)


@pytest.mark.parametrize(
    "banned",
    [
        pytest.param([3], id="some-of-what-is-allowed"),
        pytest.param([3, 5], id="all-of-it"),
        pytest.param([4], id="what-is-not-allowed"),
    ],
)
def test_a_ban_holds_where_a_grammar_leaves_anything_else(banned):
    draw = a_draw(allowed=a_mask([3, 5], 50), banned=banned)

    assert_as_on_the_host(wide_logits(vocab_size=50)[None], [draw])


def test_a_grammar_hides_nothing_that_is_no_number():
    """Its row must not be drawn from, whatever is allowed."""
    logits = torch.tensor([[0.0, NAN, INF, -INF, 1.0]])

    row = changed(logits, [a_draw(allowed=a_mask([0], 5), banned=[4])])[0]

    assert row.isnan().tolist() == [False, True, False, False, False]
    assert row[[0, 2, 3, 4]].tolist() == [0.0, INF, -INF, -INF]


def test_without_rules_there_is_no_copy():
    logits = wide_logits()[None]

    assert changed(logits, [a_draw(top_k=3)]) is logits


@st.composite
def cases(draw):
    vocab_size = draw(st.sampled_from([1, 33, 70]))
    ids = st.integers(0, vocab_size - 1)
    some = st.lists(ids, max_size=9)
    allowed = draw(st.none() | st.lists(ids, min_size=1))
    return wide_logits(vocab_size=vocab_size, seed=draw(st.integers(0, 99)), scale=4.0), a_draw(
        prompt=draw(some),
        output=draw(some),
        allowed=None if allowed is None else a_mask(allowed, vocab_size),
        banned=draw(some),
        repetition_penalty=draw(st.sampled_from([1.0, 0.5, 1.3])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.4, -2.0])),
        presence_penalty=draw(st.sampled_from([0.0, 0.7])),
        logit_bias=tuple(draw(st.lists(st.tuples(ids, st.floats(-100, 100, width=32))))),
    )


@settings(max_examples=40)
@given(cases(), st.integers(0, 99))
def test_whatever_is_asked_it_is_as_on_the_host(case, seed):
    row, draw = case

    with shuffled(seed):
        assert_as_on_the_host(torch.stack((row, row + 1, row)), [draw, a_draw(), draw])


def test_what_is_next_to_the_logits_stays():
    logits = guarded(wide_logits()[None])

    changed(logits, [a_draw(output=[0, 999], banned=[0, 999], **PENALTIES)])

    assert is_intact(logits)


WRONG = {
    "bias.places": torch.zeros(1, 2).long(),
    "bias.values": torch.zeros(2, 1),
    "penalties.rows": torch.zeros(2).long(),
    "penalties.factors": torch.zeros(1, 6).double()[:, ::2],
    "penalties.history": torch.zeros(5).int(),
    "penalties.places": torch.zeros(1, 2).int(),
    "masks.rows": torch.zeros(1, 1).int(),
    "masks.bits": torch.zeros(2, 1).int(),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_of_other_forms_are_refused(name):
    rules = {"banned": [1], "allowed": a_mask(range(5), 5)}
    draws = PackedDraws.of([a_draw(**PENALTIES, output=[1]), a_draw(banned=[1])], vocab_size=5)
    if name.startswith("masks"):
        draws = PackedDraws.of([a_draw(**rules)], vocab_size=5)
    whole, _, part = name.partition(".")
    changes = {whole: replace(getattr(draws, whole), **{part: WRONG[name]})}

    with pytest.raises(ValueError, match=f"{name} must be contiguous"):
        apply_rules(torch.zeros(2, 5), replace(draws, **changes))
