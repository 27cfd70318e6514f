"""However a sequence comes to run, its numbers are those it has alone.

Batched = single, chunked = whole, cached = cold, preempted = not: equal greedy tokens, and
logits that are equal to the last bit.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from server_reference.config import EngineConfig
from server_reference.models.load import load

LENS = {"a": 1, "b": 15, "c": 16, "d": 17, "e": 40, "f": 100}


@pytest.fixture(scope="module")
def requests(a_request):
    return [a_request(id, num_prompt, max_tokens=24) for id, num_prompt in LENS.items()]


def run(engine, recorder, requests):
    for request in requests:
        engine.add(request)
    recorder.run(engine)
    return recorder


@pytest.fixture(scope="module")
def alone(an_engine, requests):
    """Each sequence by itself in a fresh engine, its prompt in one piece."""
    engine, recorder = an_engine()
    for request in requests:
        engine, recorder = an_engine(recorder=recorder)
        run(engine, recorder, [request])
    return recorder


def assert_equal(recorder, expected, ids):
    assert {id: recorder.tokens(id) for id in ids} == {id: expected.tokens(id) for id in ids}
    for id in ids:
        ours, theirs = torch.stack(recorder.logits[id]), torch.stack(expected.logits[id])
        torch.testing.assert_close(ours, theirs, atol=0, rtol=0, msg=lambda m, id=id: id + m)


def test_batched_equals_single(an_engine, requests, alone):
    recorder = run(*an_engine(), requests)

    assert_equal(recorder, alone, LENS)


@pytest.mark.parametrize("share", [1, 7, 16, 33])
def test_chunked_equals_whole(an_engine, requests, alone, share):
    recorder = run(*an_engine(max_prefill_share=share), requests)

    assert_equal(recorder, alone, LENS)


def test_cached_equals_cold(an_engine, requests, alone):
    engine, recorder = an_engine()
    run(engine, recorder, requests)
    recorder.logits.clear()

    run(engine, recorder, requests)

    assert_equal(recorder, alone, LENS)
    cached = {id: recorder.updates[id][-1].num_cached_tokens for id in LENS}
    assert cached == {"a": 0, "b": 0, "c": 0, "d": 16, "e": 32, "f": 96}


@pytest.mark.parametrize("num_blocks", [8, 12])
def test_preempted_equals_not(an_engine, requests, alone, num_blocks):
    engine, recorder = an_engine(num_blocks=num_blocks)

    run(engine, recorder, requests)

    assert engine.stats().preemptions > 0
    assert_equal(recorder, alone, LENS)


def test_all_at_once_equals_none_of_it(an_engine, requests, alone):
    """A small pool, small chunks, a small step, and a second round over a warm cache."""
    engine, recorder = an_engine(num_blocks=9, max_prefill_share=5, max_step_tokens=11)
    run(engine, recorder, requests)
    recorder.logits.clear()

    run(engine, recorder, requests[::-1])

    assert engine.stats().preemptions > 0
    assert_equal(recorder, alone, LENS)


def test_a_seed_draws_the_same_tokens_whatever_runs_beside_it(an_engine, a_request):
    hot = a_request("s", 30, temperature=1.0, top_p=0.9, seed=5, max_tokens=20)
    others = [a_request(id, 25, temperature=1.0, max_tokens=20) for id in "xyz"]

    alone = run(*an_engine(), [hot])
    engine, beside = an_engine(num_blocks=8, max_prefill_share=9)
    run(engine, beside, [*others, hot])

    assert engine.stats().preemptions > 0
    assert beside.tokens("s") == alone.tokens("s")


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(list(LENS))),
        st.tuples(st.just("step"), st.integers(1, 4)),
        st.tuples(st.just("abort"), st.sampled_from(list(LENS))),
    ),
    max_size=25,
)


@settings(max_examples=25)
@given(operations=OPERATIONS)
def test_any_order_of_arrivals_and_aborts_equals_single(an_engine, requests, alone, operations):
    engine, recorder = an_engine(num_blocks=8, max_prefill_share=12, max_num_seqs=4)
    by_id = {request.id: request for request in requests}
    live = set()
    for operation, argument in operations:
        if operation == "step":
            recorder.run(engine, steps=argument)
        elif operation == "abort":
            engine.abort(argument)
            live.discard(argument)
        elif argument not in live or argument in _finished(recorder):
            recorder.updates.pop(argument, None)
            recorder.logits.pop(argument, None)
            engine.add(by_id[argument])
            live.add(argument)
        engine.scheduler.check()

    recorder.run(engine)

    assert _finished(recorder) >= live
    assert_equal(recorder, alone, sorted(live))
    assert engine.stats().num_free_blocks == 8


def _finished(recorder):
    return {id for id, updates in recorder.updates.items() if updates[-1].finish_reason}


@pytest.mark.smollm2
def test_sixty_four_greedy_tokens_equal_those_of_transformers(
    an_engine, a_request, transformers_smollm2
):
    """Two prompts in one batch, chunked, and short of blocks: the real model cannot tell.

    Its choice after each of our tokens being our next one, its greedy output is ours.
    """
    model = load(EngineConfig(model="smollm2", dtype="fp32", numerics="deterministic"))
    prompts = {id: model.tokenizer.encode(text) for id, text in PROMPTS.items()}
    engine, recorder = an_engine(model, num_blocks=8, max_prefill_share=7)

    run(engine, recorder, [a_request(id, prompt=p, max_tokens=64) for id, p in prompts.items()])

    assert engine.stats().preemptions > 0
    assert {id: len(recorder.tokens(id)) for id in prompts} == {"story": 64, "list": 64}
    assert {id: recorder.tokens(id) for id in prompts} == {
        id: _choices(transformers_smollm2.model, prompt, recorder.tokens(id))
        for id, prompt in prompts.items()
    }


PROMPTS = {
    "story": "Once upon a time, in a land far away, there lived a fox who",
    "list": "The planets of the solar system, in order from the sun, are",
}


def _choices(model, prompt, output):
    """The likeliest token at each place of `output`, given all before it."""
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + output])).logits[0]
    return logits.argmax(-1)[len(prompt) - 1 : -1].tolist()
