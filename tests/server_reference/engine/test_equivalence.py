"""However a sequence comes to run, its numbers are those it has alone.

Batched = single, chunked = whole, cached = cold, preempted = not, speculative = not, all at
once = none of it, and each at lookahead 0 and 1: equal tokens, and logits that are equal to
the last bit.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from server_reference.checkpoints.load import load
from server_reference.config import EngineConfig
from server_reference.core import Grammar
from tests.server_reference.engine.histories import histories, live_through

LENS = {"a": 1, "b": 15, "c": 16, "d": 17, "e": 40, "f": 100}
HOT = {"temperature": 1.0, "top_p": 0.9, "seed": 5}


@pytest.fixture(scope="module")
def requests(a_request):
    """Some greedy, some not; `d` and `f` repeat themselves, so that guesses come true."""
    return [
        a_request(id, num_prompt, max_tokens=24, logprobs=2, **(HOT if id in "bd" else {}))
        if id not in "df"
        else a_request(id, prompt=([7, 8, 9] * 40)[:num_prompt], max_tokens=24, logprobs=2)
        for id, num_prompt in LENS.items()
    ]


def run(engine, recorder, requests):
    for request in requests:
        engine.add(request)
    recorder.run(engine)
    return recorder


@pytest.fixture(scope="module")
def alone(an_engine, requests):
    """Each sequence by itself in a fresh engine, its prompt in one piece, no step ahead."""
    engine, recorder = an_engine(lookahead=0)
    for request in requests:
        engine, recorder = an_engine(recorder=recorder, lookahead=0)
        run(engine, recorder, [request])
    return recorder


def assert_equal(recorder, expected, ids):
    assert {id: recorder.tokens(id) for id in ids} == {id: expected.tokens(id) for id in ids}
    assert [id for id in ids if not _same_numbers(recorder, expected, id)] == []


def _same_numbers(recorder, expected, id):
    ours, theirs = torch.stack(recorder.logits[id]), torch.stack(expected.logits[id])
    return torch.equal(ours, theirs) and _logprobs(recorder, id) == _logprobs(expected, id)


def _logprobs(recorder, id):
    return [one for update in recorder.updates[id] for one in update.logprobs]


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
    recorder.updates.clear()

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


@pytest.mark.parametrize("num_draft_tokens", [1, 4, 64])
def test_speculative_equals_not(an_engine, requests, alone, num_draft_tokens):
    engine, recorder = an_engine(num_draft_tokens=num_draft_tokens)

    run(engine, recorder, requests)

    assert 0 < engine.stats().draft_tokens_accepted < engine.stats().draft_tokens_proposed
    assert_equal(recorder, alone, LENS)


def test_all_at_once_equals_none_of_it(an_engine, requests, alone):
    """A small pool, small chunks, a small step, guesses, and a second round, the cache warm."""
    engine, recorder = an_engine(
        num_blocks=9, max_prefill_share=5, max_step_tokens=11, num_draft_tokens=4
    )
    run(engine, recorder, requests)
    recorder.logits.clear()
    recorder.updates.clear()

    run(engine, recorder, requests[::-1])

    assert engine.stats().preemptions > 0
    assert_equal(recorder, alone, LENS)


def test_in_bf16_too_all_at_once_equals_none_of_it(an_engine, requests):
    """The default dtype, whose products take other ways."""
    options = {"dtype": "bf16", "numerics": "deterministic"}
    model, expected = load(EngineConfig(model="tiny", **options)), None
    for request in requests:
        engine, expected = an_engine(model, recorder=expected, lookahead=0, **options)
        run(engine, expected, [request])

    small = {"num_blocks": 9, "max_prefill_share": 5, "max_step_tokens": 11, "num_draft_tokens": 4}
    engine, recorder = an_engine(model, **small, **options)
    run(engine, recorder, requests)

    assert engine.stats().preemptions > 0
    assert_equal(recorder, expected, LENS)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_fifty_at_once_equal_each_alone(an_engine, a_request, dtype):
    """More rows than a kernel for few takes; elsewhere 44 sequences differed (vllm#51187)."""
    model = load(EngineConfig(model="tiny", dtype=dtype, numerics="deterministic"))
    options = {"dtype": dtype, "num_blocks": 256, "prefix_caching": False}
    prompts = [[1 + (7 * n + at) % 250 for at in range(3 + n)] for n in range(50)]
    requests = [a_request(str(n), prompt=prompt) for n, prompt in enumerate(prompts)]
    engine, expected = an_engine(model, lookahead=0, **options)
    for request in requests:
        run(engine, expected, [request])

    engine, recorder = an_engine(model, max_step_tokens=4096, **options)
    run(engine, recorder, requests)

    assert engine.stats().steps <= 9
    assert_equal(recorder, expected, [request.id for request in requests])


RULES = {
    "choice": {"grammar": Grammar(kind="choice", source='["7, 8, 9, 7, 8, 9", "8, 9"]')},
    "regex": {"grammar": Grammar(kind="regex", source="([789], ){9}end"), **HOT},
    "counted": {"grammar": Grammar(kind="regex", source="([789], ){8}"), "frequency_penalty": 1.0},
    "unlike-the-prompt": {"grammar": Grammar(kind="regex", source="(7, 8, 8, ){4}")},
    "repeated": {"repetition_penalty": 1.8, "frequency_penalty": 0.3, **HOT},
    "present": {"presence_penalty": 2.0, "logit_bias": ((55, 4.0), (56, 3.0))},
    "going-on": {"grammar": Grammar(kind="regex", source="[789, ]*"), "min_tokens": 12, **HOT},
}


@pytest.mark.parametrize("num_draft_tokens", [0, 4])
def test_what_may_come_does_not_depend_on_how_a_sequence_runs(
    an_engine, a_request, tiny, num_draft_tokens
):
    """Grammars and penalties go back with a wrong guess, and wait for a token in flight."""
    requests = [
        a_request(id, prompt=list(b"7, 8, 9, " * 4), max_tokens=24, logprobs=2, **rules)
        for id, rules in RULES.items()
    ]
    _, expected = an_engine(tiny, lookahead=0)
    for request in requests:
        run(*an_engine(tiny, recorder=expected, lookahead=0), [request])

    engine, recorder = an_engine(tiny, num_blocks=5, num_draft_tokens=num_draft_tokens)
    run(engine, recorder, requests)
    for each in (expected, recorder):  # a right guess may lie behind the end
        each.logits = {id: rows[: len(each.tokens(id))] for id, rows in each.logits.items()}

    assert engine.stats().preemptions > 0
    assert (engine.stats().draft_tokens_accepted > 0) == (num_draft_tokens > 0)
    assert_equal(recorder, expected, RULES)


def test_a_seed_draws_the_same_tokens_whatever_runs_beside_it(an_engine, a_request):
    hot = a_request("s", 30, temperature=1.0, top_p=0.9, seed=5, max_tokens=20)
    others = [a_request(id, 25, temperature=1.0, max_tokens=20) for id in "xyz"]

    alone = run(*an_engine(), [hot])
    engine, beside = an_engine(num_blocks=8, max_prefill_share=9)
    run(engine, beside, [*others, hot])

    assert engine.stats().preemptions > 0
    assert beside.tokens("s") == alone.tokens("s")


@settings(max_examples=25)
@given(
    history=histories(LENS, most_steps=4, max_size=25),
    share=st.integers(1, 20),
    num_drafts=st.sampled_from([0, 3]),
)
def test_any_order_of_arrivals_and_aborts_equals_single(
    an_engine, requests, alone, history, share, num_drafts
):
    engine, recorder = an_engine(
        num_blocks=9, max_prefill_share=share, max_num_seqs=4, num_draft_tokens=num_drafts
    )
    by_id = {request.id: request for request in requests}

    live = live_through(history, engine, recorder, by_id)

    assert all(map(recorder.has_finished, live))
    assert_equal(recorder, alone, sorted(live))
    assert engine.stats().num_free_blocks == 9


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
