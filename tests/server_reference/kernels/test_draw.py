"""What a row is sampled with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from server_reference.core import Grammar, SamplingParams
from server_reference.kernels.draw import (
    banned_tokens,
    check_params,
    check_token_ids,
    waits_for_host,
)
from tests.server_reference.engine.sampling import NAN, a_draw

GRAMMAR = Grammar(kind="choice", source='["a"]')
EOS = frozenset({7, 8})


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"repetition_penalty": 1.1}, id="repetition"),
        pytest.param({"frequency_penalty": 0.1}, id="frequency"),
        pytest.param({"presence_penalty": -0.1}, id="presence"),
        pytest.param({"grammar": GRAMMAR}, id="grammar"),
    ],
)
def test_needs_the_tokens_before_it_on_the_host(params):
    assert waits_for_host(a_draw(**params).params)


def test_needs_no_tokens_before_it_for_what_its_index_tells():
    draw = a_draw(banned={3}, logit_bias=((1, 2.0),), top_p=0.5, seed=4, logprobs=1)

    assert not waits_for_host(draw.params)


@pytest.mark.parametrize(
    ("params", "index", "banned"),
    [
        pytest.param({}, 0, set(), id="nothing"),
        pytest.param({"min_tokens": 2, "stop_token_ids": (3,)}, 1, {3, 7, 8}, id="before"),
        pytest.param({"min_tokens": 2, "stop_token_ids": (3,)}, 2, set(), id="from-then-on"),
        pytest.param(
            {"min_tokens": 2, "stop_token_ids": (3,), "ignore_eos": True},
            0,
            {3},
            id="an-end-that-is-ignored-may-come",
        ),
        pytest.param({"ignore_eos": True, "grammar": GRAMMAR}, 9, {7, 8}, id="a-grammar-goes-on"),
    ],
)
def test_no_token_that_would_end_the_output_comes_too_early(params, index, banned):
    assert banned_tokens(SamplingParams(max_tokens=9, **params), EOS, index) == banned


LARGEST = SamplingParams(
    max_tokens=5,
    temperature=2,
    top_k=10,
    top_p=1,
    min_p=1.0,
    min_tokens=5,
    logprobs=20,
    prompt_logprobs=0,
    seed=-(2**70),
    logit_bias=((0, -100.0), (99, 100)),
    stop_token_ids=(99,),
)


def test_what_can_be_sampled_is_accepted():
    check_params(LARGEST, 100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": -0.1}, "temperature must be a number from 0 to 1000, not -0.1"),
        ({"temperature": NAN}, "temperature must be a number .* not nan"),
        ({"top_p": 1.1}, "top_p must be a number from 0 to 1, not 1.1"),
        ({"min_p": "x"}, "min_p must be a number from 0 to 1, not 'x'"),
        ({"top_k": 0}, "top_k must be an integer from 1 "),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be a number from 0.001"),
        ({"presence_penalty": True}, "presence_penalty must be a number"),
        ({"logprobs": 21}, "logprobs must be an integer from 0 to 20, not 21"),
        ({"min_tokens": 6}, r"min_tokens \(6\) is above max_tokens \(5\)"),
        ({"seed": 1.5}, "seed must be an integer, not 1.5"),
        ({"logit_bias": ((100, 1.0),)}, "logit_bias names token 100; .* 0 to 99"),
        ({"logit_bias": ((-1, 1.0),)}, "logit_bias names token -1"),
        ({"logit_bias": ((1, NAN),)}, "logit_bias must be numbers from .* not nan"),
        ({"stop_token_ids": (100,)}, "stop_token_ids names token 100"),
        ({"max_tokens": None}, "max_tokens must be an integer"),
        ({"ignore_eos": "yes"}, "ignore_eos must be True or False, not 'yes'"),
        ({"stop": "end"}, "stop must be a tuple of texts, not 'end'"),
        ({"stop": (5,)}, r"stop must be a tuple of texts, not \(5,\)"),
        ({"stop": None}, "stop must be a tuple of texts, not None"),
        ({"stop_token_ids": 5}, "stop_token_ids must be a tuple of token ids, not 5"),
        ({"stop_token_ids": (True,)}, "stop_token_ids names token True"),
        ({"logit_bias": {1: 2.0}}, "logit_bias must be a tuple of pairs"),
        ({"logit_bias": ((1,),)}, "logit_bias must be a tuple of pairs"),
        ({"logit_bias": ((1, "x"),)}, "logit_bias must be numbers from .* not 'x'"),
        ({"logit_bias": ((1, 1e38),)}, r"to 1e\+30, not 1e\+38; try -100"),
        ({"grammar": "a+"}, "grammar must be a Grammar, not 'a"),
        ({"grammar": Grammar(kind="regex", source=5)}, "source must be text, not 5"),
        ({"grammar": Grammar(kind="bnf", source="a")}, "kind must be one of .*, not 'bnf'"),
    ],
)
def test_what_cannot_be_sampled_is_refused_with_the_reason(change, message):
    with pytest.raises(ValueError, match=message):
        check_params(replace(LARGEST, **change), 100)


@pytest.mark.parametrize(
    ("token_ids", "named"),
    [
        pytest.param([0, 100], "100", id="beyond"),
        pytest.param([-1], "-1", id="negative"),
        pytest.param([1.0], "1.0", id="no-integer"),
        pytest.param([True], "True", id="a-flag"),
        pytest.param([2**70], str(2**70), id="huge"),
    ],
)
def test_a_token_that_the_model_does_not_have_is_named(token_ids, named):
    message = f"the prompt names token {named}; this model's are 0 to 99"

    with pytest.raises(ValueError, match=message):
        check_token_ids("the prompt", token_ids, 100)


def test_every_token_of_the_model_may_be_named():
    check_token_ids("the prompt", [0, 99], 100)
