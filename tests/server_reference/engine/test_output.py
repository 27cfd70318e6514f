"""When an output ends, and what is told of its tokens, at lookahead 0 and 1."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from server_reference.core import Grammar, Sequence, TokenLogprob
from server_reference.engine.model_runner import Drawn
from server_reference.engine.output import Output
from server_reference.engine.scheduler import Scheduled
from server_reference.kernels.heads import by_heads
from server_reference.text.detokenizer import Detokenizer


def run(engine, recorder, *requests):
    for request in requests:
        engine.add(request)
    recorder.run(engine)
    return recorder


def told(recorder, what, id="a"):
    return [one for update in recorder.updates[id] for one in getattr(update, what)]


@pytest.fixture
def free(an_engine, a_request):
    """Ten tokens that nothing ends."""
    return run(*an_engine(), a_request(max_tokens=10))


def test_every_token_is_told_once(free):
    assert told(free, "token_ids") == free.tokens("a")
    assert len(free.tokens("a")) == 10


def test_a_prompt_that_ends_inside_a_character_is_no_part_of_the_text(an_engine, a_request, tiny):
    """It came again as a whole, once the first token completed the character (vllm#48853)."""
    e_acute = "é".encode()
    inside = a_request(prompt=[*b"caf", e_acute[0]], max_tokens=1, logit_bias=((e_acute[1], 100),))

    recorder = run(*an_engine(tiny), inside)

    assert recorder.tokens("a") == [e_acute[1]]
    assert recorder.text("a") == "\N{REPLACEMENT CHARACTER}"


def test_a_stop_token_ends_the_output_and_is_no_part_of_it(an_engine, a_request, free):
    third = free.tokens("a")[2]

    recorder = run(*an_engine(), a_request(max_tokens=10, stop_token_ids=(third,)))

    last = recorder.updates["a"][-1]
    assert (last.finish_reason, last.stop_sequence) == ("stop_sequence", None)
    assert told(recorder, "token_ids") == free.tokens("a")[:2]
    assert last.num_output_tokens == 2


def test_ignore_eos_goes_on_over_the_end_of_the_turn(an_engine, a_request, words, free):
    third = free.tokens("a")[2]

    recorder = run(*an_engine(words(eos=[third])), a_request(max_tokens=10, ignore_eos=True))

    assert told(recorder, "token_ids") == free.tokens("a")
    assert recorder.updates["a"][-1].finish_reason == "length"


def test_ignore_eos_goes_on_for_as_long_as_a_grammar_can(an_engine, a_request, tiny):
    end = max(tiny.tokenizer.eos_token_ids)
    wanted = {"logit_bias": ((end, 100.0),), "grammar": Grammar(kind="regex", source="[a-z]{0,6}")}

    without = run(*an_engine(tiny), a_request(max_tokens=10, **wanted))
    recorder = run(*an_engine(tiny), a_request(max_tokens=10, ignore_eos=True, **wanted))

    assert told(without, "token_ids") == []
    assert len(told(recorder, "token_ids")) == 6
    assert recorder.updates["a"][-1].finish_reason == "stop"


def test_an_output_that_nothing_can_follow_ends_at_once(an_engine, a_request, tiny):
    yes = Grammar(kind="choice", source='["yes"]')

    recorder = run(*an_engine(tiny), a_request(max_tokens=3, grammar=yes))

    assert (recorder.text("a"), recorder.updates["a"][-1].finish_reason) == ("yes", "stop")


@pytest.mark.parametrize("kind", ["eos", "stop_token_ids"])
def test_no_token_that_would_end_it_is_drawn_before_min_tokens(
    an_engine, a_request, words, free, kind
):
    third = free.tokens("a")[2]
    model, params = words(eos=[third] if kind == "eos" else []), {}
    if kind == "stop_token_ids":
        params = {"stop_token_ids": (third,)}

    recorder = run(*an_engine(model), a_request(max_tokens=10, min_tokens=5, **params))

    assert recorder.updates["a"][-1].num_output_tokens >= 5
    assert third not in recorder.tokens("a")
    assert recorder.tokens("a")[:2] == free.tokens("a")[:2]


def test_no_stop_string_ends_it_before_min_tokens(an_engine, a_request, free):
    tokens = free.tokens("a")
    third, sixth = f"<{tokens[2]}>", f"<{tokens[5]}>"

    recorder = run(*an_engine(), a_request(max_tokens=10, min_tokens=4, stop=(third, sixth)))

    assert recorder.text("a") == "".join(f"<{token}>" for token in tokens[:5])
    assert recorder.updates["a"][-1].stop_sequence == sixth


def test_logprobs_are_told_of_every_token_that_is_told(an_engine, a_request, words, free):
    fifth = free.tokens("a")[4]

    recorder = run(*an_engine(words(eos=[fifth])), a_request(max_tokens=10, logprobs=2))

    logprobs = told(recorder, "logprobs")
    assert [one.token_id for one in logprobs] == free.tokens("a")[:4]
    assert [one.top[0][0] for one in logprobs] == free.tokens("a")[:4]
    assert all(len(one.top) == 2 for one in logprobs)
    expected = torch.stack(free.logits["a"])[:4].log_softmax(-1).max(-1).values
    assert [one.logprob for one in logprobs] == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("share", [3, 16, 256])
@pytest.mark.parametrize("max_tokens", [0, 3])
def test_prompt_logprobs_are_told_with_the_first_update(
    an_engine, a_request, tiny, share, max_tokens
):
    request = a_request(num_prompt=40, max_tokens=max_tokens, prompt_logprobs=1)

    recorder = run(*an_engine(max_prefill_share=share), request)

    first, *others = recorder.updates["a"]
    expected = _prompt_logprobs(tiny, request.prompt_token_ids)
    assert [one.token_id for one in first.prompt_logprobs] == request.prompt_token_ids[1:]
    assert [one.logprob for one in first.prompt_logprobs] == pytest.approx(expected, abs=1e-4)
    assert [update.prompt_logprobs for update in others] == [[]] * len(others)


def test_a_cached_prompt_is_computed_again_for_its_logprobs(an_engine, a_request):
    engine, recorder = an_engine()
    run(engine, recorder, a_request("a", 40, max_tokens=1))

    run(engine, recorder, a_request("a", 40, max_tokens=1, prompt_logprobs=0))

    assert len(told(recorder, "prompt_logprobs")) == 39
    assert recorder.updates["a"][-1].num_cached_tokens == 0


def test_prompt_logprobs_of_a_sequence_that_was_preempted_are_told_once(an_engine, a_request):
    engine, recorder = an_engine(num_blocks=6, max_prefill_share=7)
    requests = [a_request(id, 40, max_tokens=20, prompt_logprobs=0) for id in "abc"]

    run(engine, recorder, *requests)

    assert engine.stats().preemptions > 0
    for request in requests:
        ids = [one.token_id for one in told(recorder, "prompt_logprobs", request.id)]
        assert ids == request.prompt_token_ids[1:]


def test_prompt_logprobs_of_a_prompt_that_lost_its_blocks_halfway_are_told_once(
    an_engine, a_request
):
    engine, recorder = an_engine(num_blocks=6, max_prefill_share=3)
    engine.add(a_request("a", 30, max_tokens=40))
    recorder.run(engine, steps=10)
    request = a_request("b", 60, max_tokens=1, prompt_logprobs=0)

    run(engine, recorder, request)

    assert engine.stats().preemptions == 1
    ids = [one.token_id for one in told(recorder, "prompt_logprobs", "b")]
    assert ids == request.prompt_token_ids[1:]


@pytest.mark.parametrize(
    "penalty",
    [{"repetition_penalty": 5.0}, {"frequency_penalty": 9.0}, {"presence_penalty": 9.0}],
    ids=lambda penalty: next(iter(penalty)),
)
def test_a_penalty_knows_the_token_before_whatever_the_lookahead(an_engine, a_request, penalty):
    """It was drawn in a step that is in flight while this one computes."""
    request = a_request(prompt=[7, 8, 9] * 4, max_tokens=20, **penalty)
    ahead = run(*an_engine(), request, a_request("b", max_tokens=20))
    behind = run(*an_engine(lookahead=0), request)
    plain = run(*an_engine(lookahead=0), a_request(prompt=[7, 8, 9] * 4, max_tokens=20))

    assert ahead.tokens("a") == behind.tokens("a") != plain.tokens("a")
    assert max(map(ahead.tokens("a").count, range(259))) < max(
        map(plain.tokens("a").count, range(259))
    )


def test_what_ran_ahead_of_an_end_is_neither_told_nor_counted(an_engine, a_request, words, free):
    third = free.tokens("a")[2]
    engine, recorder = an_engine(words(eos=[third]), num_blocks=8)

    run(engine, recorder, a_request(max_tokens=10))

    assert len(recorder.logits["a"]) == 3  # the end of the turn is one of them
    assert len(recorder.updates["a"]) == 3
    assert engine.stats().num_free_blocks == 8


def test_of_accepted_guesses_none_counts_after_the_one_that_ends_it(an_engine, a_request):
    prompt = [7, 8, 9] * 8
    free = run(*an_engine(), a_request(prompt=prompt, max_tokens=60))
    stop = "".join(f"<{token}>" for token in free.tokens("a")[24:30])

    engine, recorder = an_engine(num_draft_tokens=8)
    run(engine, recorder, a_request(prompt=prompt, max_tokens=60, stop=(stop,)))
    without = run(*an_engine(), a_request(prompt=prompt, max_tokens=60, stop=(stop,)))

    assert engine.stats().draft_tokens_accepted > 0
    assert recorder.text("a") == without.text("a")
    assert told(recorder, "token_ids") == told(without, "token_ids")
    assert engine.stats().num_free_blocks == 64


def test_a_prompt_that_is_no_numbers_fails_where_its_logprobs_are_asked_for(
    an_engine, a_request, words
):
    model = words()
    weights = dict(model.transformer.weights)
    weights["embedding"] = weights["embedding"].clone()
    weights["embedding"][0] = math.nan
    broken = _with_weights(model, weights)

    recorder = run(*an_engine(broken), a_request(prompt=[5, 0, 6], max_tokens=0, prompt_logprobs=0))

    (only,) = recorder.updates["a"]
    assert (only.finish_reason, only.prompt_logprobs) == ("error", [])


def test_of_right_guesses_before_a_row_of_no_numbers_the_logprobs_are_told(a_request):
    params = a_request(logprobs=0).params
    sequence = Sequence(id="a", tenant="", prompt_token_ids=[1], params=params, arrival=0)
    output = Output(sequence, Detokenizer(lambda token: b"x"), None, eos=frozenset(), added=0.0)
    its = [TokenLogprob(token_id=7, logprob=-1.0)]
    entry = Scheduled(sequence, 0, 2, reaches_target=True, num_drafts=1)

    update = output.take(Drawn(entry, 0, [7, None], its, []), now=1.0)

    assert (update.finish_reason, update.token_ids, update.logprobs) == ("error", [7], its)


def _with_weights(model, weights):
    transformer = model.transformer
    return replace(model, transformer=type(transformer)(transformer.config, weights))


def _prompt_logprobs(tiny, prompt):
    """Each token's, from a causal pass over the whole prompt without any cache."""

    def attend(layer, q, k, v):
        k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        mask = torch.ones(len(q), len(q), dtype=torch.bool).triu(1)
        return torch.einsum("hqk,khd->qhd", scores.masked_fill(mask, -math.inf).softmax(-1), v)

    hidden = tiny.transformer.hidden(
        torch.tensor(prompt), torch.arange(len(prompt)), by_heads(attend)
    )
    logprobs = tiny.transformer.logits(hidden).log_softmax(-1)
    return [float(row[token]) for row, token in zip(logprobs, prompt[1:], strict=False)]


def test_a_deadline_ends_a_sequence_wherever_it_is(an_engine, a_request):
    now = [0.0]
    engine, recorder = an_engine(clock=lambda: now[0], max_num_seqs=1)
    for id in "ab":
        engine.add(replace(a_request(id, max_tokens=20), deadline=5.0))
    recorder.run(engine, steps=4)
    now[0] = 6.0

    recorder.run(engine)

    assert {id: recorder.updates[id][-1].finish_reason for id in "ab"} == dict.fromkeys(
        "ab", "deadline"
    )
    assert told(recorder, "token_ids") == recorder.tokens("a")
    assert engine.stats().num_free_blocks == 64


def test_who_waits_too_long_is_refused_and_who_started_is_not(an_engine, a_request):
    now = [0.0]
    engine, recorder = an_engine(clock=lambda: now[0], max_num_seqs=1, max_queue_wait=5.0)
    for id in "ab":
        engine.add(a_request(id, max_tokens=20))
    recorder.run(engine, steps=4)
    now[0] = 6.0

    recorder.run(engine)

    reasons = {id: recorder.updates[id][-1].finish_reason for id in "ab"}
    assert reasons == {"a": "length", "b": "refused"}
    assert recorder.updates["b"][-1].error == "no place became free within 5.0 s"
