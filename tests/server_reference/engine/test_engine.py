"""What the engine tells of a sequence, and that nothing is left of one."""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import count

import pytest
import torch

from server_reference.checkpoints.load import load
from server_reference.config import EngineConfig
from server_reference.core import Grammar, Sequence, StageTimes
from server_reference.engine.engine import RefusedError


def run(engine, recorder, *requests):
    for request in requests:
        engine.add(request)
    recorder.run(engine)
    return recorder


def finish_reasons(recorder):
    return {id: updates[-1].finish_reason for id, updates in recorder.updates.items()}


def test_max_tokens_ends_with_length(an_engine, a_request):
    recorder = run(*an_engine(), a_request(max_tokens=5))

    assert [update.num_output_tokens for update in recorder.updates["a"]] == [1, 2, 3, 4, 5]
    assert finish_reasons(recorder) == {"a": "length"}


def test_the_text_is_that_of_the_tokens_and_never_of_the_prompt(an_engine, a_request):
    recorder = run(*an_engine(), a_request(max_tokens=5))

    assert recorder.text("a") == "".join(f"<{token}>" for token in recorder.tokens("a"))


def test_the_end_of_turn_token_is_no_text_and_is_not_counted(an_engine, a_request, words):
    free = run(*an_engine(), a_request(max_tokens=5))
    third = free.tokens("a")[2]

    recorder = run(*an_engine(words(eos=[third])), a_request(max_tokens=5))

    last = recorder.updates["a"][-1]
    assert (last.finish_reason, last.num_output_tokens, last.text) == ("stop", 2, "")
    assert recorder.tokens("a") == free.tokens("a")[:2]


def test_a_stop_string_over_two_tokens_ends_the_text_before_it(an_engine, a_request):
    free = run(*an_engine(), a_request(max_tokens=5))
    first, second, third = free.tokens("a")[:3]
    stop = f"{second}><{third}"

    recorder = run(*an_engine(), a_request(max_tokens=5, stop=("nothing", stop)))

    last = recorder.updates["a"][-1]
    assert recorder.text("a") == f"<{first}><"
    assert (last.finish_reason, last.stop_sequence) == ("stop_sequence", stop)
    assert last.num_output_tokens == 3


def test_what_a_possible_stop_string_held_back_comes_with_the_end(an_engine, a_request):
    free = run(*an_engine(), a_request(max_tokens=3))
    last = free.tokens("a")[-1]

    recorder = run(*an_engine(), a_request(max_tokens=3, stop=(f"<{last}>!",)))

    assert recorder.text("a") == free.text("a")
    assert finish_reasons(recorder) == {"a": "length"}


def test_max_tokens_zero_computes_and_caches_the_prompt(an_engine, a_request):
    engine, recorder = an_engine()
    prompt = list(range(1, 41))

    run(engine, recorder, a_request("a", prompt=prompt, max_tokens=0))
    run(engine, recorder, a_request("b", prompt=prompt, max_tokens=1))

    (only,) = recorder.updates["a"]
    assert (only.finish_reason, only.num_output_tokens, only.text) == ("length", 0, "")
    assert recorder.updates["b"][-1].num_cached_tokens == 32
    assert "a" not in recorder.logits


def test_a_tenant_does_not_read_the_cache_of_another(an_engine, a_request):
    engine, recorder = an_engine()
    prompt = list(range(1, 41))

    run(engine, recorder, a_request("a", prompt=prompt, tenant="one"))
    run(engine, recorder, a_request("b", prompt=prompt, tenant="two"))

    assert recorder.updates["b"][-1].num_cached_tokens == 0


def test_the_output_is_cached_for_the_next_turn(an_engine, a_request):
    engine, recorder = an_engine()
    run(engine, recorder, a_request("a", 20, max_tokens=20))
    history = recorder.sequences["a"].prompt_token_ids + recorder.tokens("a")

    run(engine, recorder, a_request("b", prompt=[*history, 7, 8, 9]))

    assert recorder.updates["b"][-1].num_cached_tokens == 32


def test_eight_at_once_take_the_steps_of_one(an_engine, a_request, lookahead):
    engine, recorder = an_engine()

    run(engine, recorder, *(a_request(id, max_tokens=10) for id in "abcdefgh"))

    assert engine.stats().steps == 10 + lookahead  # the last one only tells


def test_stages_are_timed_by_the_clock(an_engine, a_request):
    """Reads: added 0, step one from 1 to 2, step two from 3 to 4, and so on."""
    ticks = count()
    engine, recorder = an_engine(clock=lambda: float(next(ticks)), lookahead=0)

    run(engine, recorder, a_request(max_tokens=3))

    assert [update.times for update in recorder.updates["a"]] == [
        StageTimes(queue=1.0, prefill=1.0),
        StageTimes(),
        StageTimes(queue=1.0, prefill=1.0, decode=4.0),
    ]


def test_a_stage_ends_when_its_token_is_known(an_engine, a_request):
    """Reads: added 0, step one starts at 1, step two at 2 and tells of one at 3, and so on.

    The fourth step has nothing to compute, and tells of the third.
    """
    ticks = count()
    engine, recorder = an_engine(clock=lambda: float(next(ticks)), lookahead=1)

    run(engine, recorder, a_request(max_tokens=3))

    assert [update.times for update in recorder.updates["a"]] == [
        StageTimes(queue=1.0, prefill=2.0),
        StageTimes(),
        StageTimes(queue=1.0, prefill=2.0, decode=4.0),
    ]


def test_steps_that_overlap_are_not_timed_twice(an_engine, a_request):
    ticks = count()
    engine, recorder = an_engine(clock=lambda: float(next(ticks)), lookahead=1)

    run(engine, recorder, a_request(max_tokens=3))

    assert [step.duration for step in engine.explain(3)][:2] == [2.0, 2.0]


def test_a_prompt_in_chunks_waited_until_its_first_one(an_engine, a_request):
    ticks = count()
    engine, recorder = an_engine(max_prefill_share=8, clock=lambda: float(next(ticks)))

    run(engine, recorder, a_request(num_prompt=30, max_tokens=1))

    assert recorder.updates["a"][-1].times.queue == 1.0


def test_a_sequence_that_waits_has_its_time_in_the_queue(an_engine, a_request, lookahead):
    ticks = count()
    engine, recorder = an_engine(clock=lambda: float(next(ticks)), max_num_seqs=1)

    run(engine, recorder, a_request("a", max_tokens=3), a_request("b", max_tokens=1))

    assert recorder.updates["b"][-1].times.queue == 7.0 + lookahead


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(0, id="queued"),
        pytest.param(1, id="mid-prefill"),
        pytest.param(12, id="decoding"),
    ],
)
def test_an_aborted_sequence_leaves_nothing_and_says_nothing_more(an_engine, a_request, steps):
    """A client that goes away frees its blocks before the next step (vllm#46283)."""
    engine, recorder = an_engine(max_prefill_share=4)
    engine.add(a_request("a", 40, max_tokens=20))
    recorder.run(engine, steps=steps)
    before = len(recorder.updates.get("a", []))

    engine.abort("a")

    assert engine.step() == []
    assert engine.stats().num_free_blocks == 64
    assert not engine.has_work
    assert len(recorder.updates.get("a", [])) == before


def test_nothing_is_kept_of_a_sequence_that_ended_but_the_last(an_engine, a_request, tiny):
    engine, recorder = an_engine(
        tiny, num_draft_tokens=4, traced_steps=0, on_logits=lambda sequences, logits: None
    )
    kept = _num_sequences()
    grammar = Grammar(kind="regex", source="[ab]{20}")

    run(engine, recorder, *(a_request(id, grammar=grammar, max_tokens=20) for id in "abc"))
    run(engine, recorder, a_request("last", grammar=grammar, max_tokens=20))

    assert len(recorder.updates) == 4
    assert _num_sequences() <= kept + 1


def _num_sequences():
    gc.collect()
    return sum(type(one) is Sequence for one in gc.get_objects())


def test_an_abort_of_a_preempted_sequence_leaves_the_other_running(an_engine, a_request):
    engine, recorder = an_engine(num_blocks=4)
    engine.add(a_request("a", 30, max_tokens=30))
    engine.add(a_request("b", 30, max_tokens=30))
    recorder.run(engine, steps=4)
    preempted = engine.stats().num_queued

    engine.abort("b")
    recorder.run(engine)

    assert preempted == 1
    assert finish_reasons(recorder) == {"a": "length", "b": None}
    assert engine.stats().num_free_blocks == 4


def test_of_a_burst_the_newest_are_refused_when_blocks_are_short(an_engine, a_request):
    """What the front knows is a step old, so it lets all of them in."""
    engine, recorder = an_engine(num_blocks=4, max_num_seqs=32, max_queued=2)
    ids = [f"s{number}" for number in range(34)]

    run(engine, recorder, *(a_request(id, 40) for id in ids))

    assert finish_reasons(recorder) == dict.fromkeys(ids[:3], "length") | dict.fromkeys(
        ids[3:], "refused"
    )
    assert engine.stats().num_free_blocks == 4


def test_an_abort_during_a_step_does_not_end_the_engine(an_engine, a_request):
    """Its result comes late (LMCache#4185)."""
    engine, recorder = an_engine(on_logits=lambda sequences, logits: engine.abort("a"))

    run(engine, recorder, a_request("a"), a_request("b", max_tokens=3))

    assert finish_reasons(recorder) == {"b": "length"}
    assert engine.stats().num_free_blocks == 64


def test_an_unknown_id_is_ignored_by_abort(an_engine):
    engine, _ = an_engine()

    engine.abort("nobody")

    assert not engine.has_work


def test_an_id_is_taken_only_while_its_sequence_runs(an_engine, a_request):
    engine, recorder = an_engine()
    engine.add(a_request("a"))

    with pytest.raises(ValueError, match="'a' is running; ids must be unique"):
        engine.add(a_request("a"))
    engine.abort("a")
    run(engine, recorder, a_request("a"))

    assert finish_reasons(recorder) == {"a": "length"}


@pytest.mark.parametrize("num_blocks", [pytest.param(2, id="pool"), pytest.param(None, id="model")])
def test_more_than_the_capacity_is_refused_at_once(an_engine, a_request, num_blocks):
    engine, _ = an_engine(num_blocks=num_blocks)

    with pytest.raises(RefusedError, match=f"exceed the {engine.capacity} tokens"):
        engine.add(a_request(num_prompt=engine.capacity, max_tokens=1))

    assert not engine.has_work
    assert engine.capacity == (32 if num_blocks else 4096)


def test_a_row_that_is_no_numbers_fails_alone(an_engine, a_request, poisoned):
    recorder = run(*an_engine(poisoned), a_request("ok"), a_request("bad", prompt=[5, 0, 6]))

    assert finish_reasons(recorder) == {"ok": "length", "bad": "error"}
    assert "not numbers" in recorder.updates["bad"][-1].error
    assert recorder.updates["ok"][-1].num_output_tokens == 8


def test_blocks_of_a_row_that_is_no_numbers_are_not_found_again(an_engine, a_request, poisoned):
    engine, recorder = an_engine(poisoned)

    run(engine, recorder, a_request("bad", prompt=[0] * 40))

    assert engine.stats().num_cached_blocks == 0
    assert engine.stats().num_free_blocks == 64


def test_others_use_the_blocks_of_a_row_that_was_no_numbers(an_engine, a_request, poisoned):
    """Not even masked is a NaN read by whom it does not belong to."""
    engine, recorder = an_engine(poisoned, num_blocks=4)
    run(engine, recorder, a_request("bad", prompt=[0] * 56))

    run(engine, recorder, a_request("a", 3), a_request("b", 20))

    assert finish_reasons(recorder) == {"bad": "error", "a": "length", "b": "length"}


def test_unseeded_sequences_draw_differently_and_repeat_with_the_engine_seed(an_engine, a_request):
    prompt = list(range(1, 20))
    one, two = (a_request(id, prompt=prompt, temperature=1.0, max_tokens=12) for id in "ab")

    recorder = run(*an_engine(seed=3), one, two)
    again = run(*an_engine(seed=3), one, two)
    other = run(*an_engine(seed=4), one, two)

    assert recorder.tokens("a") != recorder.tokens("b")
    assert again.tokens("a") == recorder.tokens("a")
    assert other.tokens("a") != recorder.tokens("a")


def test_each_token_of_an_output_has_noise_of_its_own(an_engine, a_request):
    """So hot that only the noise decides: the same one would draw one token for ever."""
    recorder = run(*an_engine(), a_request(temperature=1e3, max_tokens=20))

    assert len(set(recorder.tokens("a"))) > 10


def test_statistics_count_what_happened(an_engine, a_request):
    engine, recorder = an_engine()
    run(engine, recorder, a_request("a", 40))
    run(engine, recorder, a_request("a", 40))
    engine.add(a_request("b"))

    stats = engine.stats()

    assert (stats.num_running, stats.num_queued, stats.preemptions) == (0, 1, 0)
    assert (stats.prefix_tokens_queried, stats.prefix_tokens_hit) == (80, 32)
    assert (stats.num_blocks, stats.num_free_blocks, stats.num_cached_blocks) == (64, 64, 2)


def test_memory_for_no_block_is_refused_with_the_arithmetic(an_engine):
    with pytest.raises(ValueError, match="one of 16 tokens takes 32,768 bytes"):
        an_engine(num_blocks=None, kv_memory_bytes=1000)


def test_the_pool_follows_from_the_memory(an_engine):
    engine, _ = an_engine(num_blocks=None, kv_memory_bytes=10 * 32_768 + 5)

    assert engine.stats().num_blocks == 10


def test_bf16_runs_too(an_engine, a_request, tiny_bf16):
    recorder = run(*an_engine(tiny_bf16), a_request("a", 20), a_request("b", 5))

    assert finish_reasons(recorder) == {"a": "length", "b": "length"}


@pytest.fixture
def poisoned(tiny, words):
    """The built-in model, but token 0 is no number."""
    transformer = tiny.transformer
    weights = dict(transformer.weights)
    weights["embedding"] = weights["embedding"].clone()
    weights["embedding"][0] = torch.nan
    return replace(words(), transformer=type(transformer)(transformer.config, weights))


@pytest.fixture
def tiny_bf16():
    return load(EngineConfig(model="tiny", dtype="bf16"))


def test_a_pool_that_this_machine_cannot_hold_is_refused(an_engine):
    """Before its blocks are made, which would take the memory that there is."""
    with pytest.raises(ValueError, match=r"more than the .* bytes of memory here; lower"):
        an_engine(num_blocks=2**31 - 1)
