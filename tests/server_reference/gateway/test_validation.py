from __future__ import annotations

from dataclasses import fields

import pytest

from server_reference.api.chat import ChatRequest
from server_reference.api.errors import ApiError
from server_reference.core import SamplingParams
from server_reference.gateway.validation import check_length, check_model, fit, size_of


def a_request(max_tokens=5, **fields):
    return ChatRequest(model="tiny", messages=[], max_tokens=max_tokens, **fields)


def test_another_model_is_404():
    with pytest.raises(ApiError, match="no model 'tiny' here; this server serves 'smollm2'") as e:
        check_model(a_request(), served="smollm2")

    assert e.value.status("openai") == 404


@pytest.mark.parametrize(
    ("max_tokens", "prompt_tokens", "granted"),
    [
        pytest.param(5, 10, 5, id="fits"),
        pytest.param(95, 10, 90, id="lowered-to-what-is-left"),
        pytest.param(None, 10, 90, id="all-that-is-left"),
        pytest.param(5, 99, 1, id="one-token-left"),
        pytest.param(0, 100, 0, id="prefill-of-all"),
    ],
)
def test_max_tokens_is_what_the_capacity_leaves(max_tokens, prompt_tokens, granted):
    params = fit(a_request(max_tokens), prompt_tokens=prompt_tokens, capacity=100)

    assert params.max_tokens == granted


@pytest.mark.parametrize(
    ("max_tokens", "prompt_tokens"),
    [
        pytest.param(1, 100, id="no-room-for-a-token"),
        pytest.param(None, 100, id="no-room-and-no-limit"),
        pytest.param(0, 101, id="prefill-too-long"),
    ],
)
def test_a_prompt_that_cannot_fit_is_400_with_the_numbers(max_tokens, prompt_tokens):
    with pytest.raises(ApiError, match=rf"{prompt_tokens} tokens .* 100 here") as refused:
        fit(a_request(max_tokens), prompt_tokens=prompt_tokens, capacity=100)

    assert refused.value.status("openai") == 400
    assert refused.value.code == "context_length_exceeded"


def test_a_complaint_names_the_field_that_the_messages_stand_in():
    with pytest.raises(ApiError) as too_long:
        fit(a_request(messages_field="input"), prompt_tokens=100, capacity=100)

    assert too_long.value.param == "input"


def test_sampling_is_passed_on():
    given = {
        "temperature": 0.2,
        "top_k": 4,
        "top_p": 0.7,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "logit_bias": ((1, 2.0),),
        "seed": 9,
        "logprobs": 3,
        "prompt_logprobs": 2,
        "stop": ("x",),
        "stop_token_ids": (7,),
        "min_tokens": 4,
        "ignore_eos": True,
    }

    params = fit(a_request(**given), prompt_tokens=1, capacity=100)

    assert {name: getattr(params, name) for name in given} == given
    assert {one.name for one in fields(SamplingParams)} == {*given, "max_tokens", "grammar"}


def test_no_more_tokens_are_asked_for_than_there_is_room():
    params = fit(a_request(None, min_tokens=50), prompt_tokens=90, capacity=100)

    assert (params.max_tokens, params.min_tokens) == (10, 10)


def turns(*texts):
    return [{"role": "user", "content": text} for text in texts]


@pytest.mark.parametrize(
    ("messages", "prefill", "characters"),
    [
        pytest.param(turns("x" * 81_000), "", "81,000", id="text"),
        pytest.param(turns("x" * 80_000), "y" * 81, "80,081", id="with-prefill"),
        pytest.param(turns(*[""] * 1001), "", "0", id="messages"),
    ],
)
def test_what_is_too_long_in_any_tokens_is_refused_before_it_is_tokenized(
    messages, prefill, characters
):
    request = ChatRequest(model="tiny", messages=messages, prefill=prefill, max_tokens=1)

    with pytest.raises(ApiError, match=f"{characters} characters .* 1,000 tokens") as refused:
        check_length(request, size_of(request), longest_token=80, max_context=1000)

    assert refused.value.code == "context_length_exceeded"


def test_what_may_still_fit_is_let_through_to_be_tokenized():
    request = ChatRequest(model="tiny", messages=turns("x" * 80_000), max_tokens=1)

    check_length(request, size_of(request), longest_token=80, max_context=1000)
