"""What users of other engines have reported, where no test beside a file of ours shows it.

`docs/explanation/engine-faults.md` has the whole list.
"""

from __future__ import annotations

import random

import pytest


def run(engine, recorder, *requests):
    for request in requests:
        engine.add(request)
    recorder.run(engine)
    return recorder


@pytest.fixture
def alone(an_engine):
    """The tokens of a request that runs by itself."""

    def tokens(request):
        engine, recorder = an_engine()
        return run(engine, recorder, request).tokens(request.id)

    return tokens


def test_a_prompt_of_a_block_and_a_token_loses_none_when_it_is_computed_again(
    an_engine, a_request, alone
):
    """257 tokens in blocks of 256 came back with one missing (nano-vllm#217)."""
    first = a_request("a", 200, max_tokens=70)
    second = a_request("b", 257, max_tokens=20)
    engine, recorder = an_engine(block_size=256, num_blocks=3, max_step_tokens=1024)

    run(engine, recorder, first, second)

    assert recorder.tokens("b") == alone(second)
    assert recorder.tokens("a") == alone(first)


def test_equal_prompts_at_once_end_apart_and_keep_what_they_share(an_engine, a_request, alone):
    """One that ended freed pages to which the other's table still led (mini-sglang#142)."""
    prompt = a_request("a", 40).prompt_token_ids
    short = a_request("short", prompt=prompt, max_tokens=2)
    long = a_request("long", prompt=prompt, max_tokens=24)
    others = [a_request(f"other-{n}", 30, max_tokens=20) for n in range(4)]
    engine, recorder = an_engine(num_blocks=20)

    run(engine, recorder, short, long, *others)

    assert recorder.tokens("long") == alone(long)
    assert recorder.tokens("long")[:2] == recorder.tokens("short")


def test_two_that_do_not_fit_together_do_not_take_turns_for_ever(an_engine, a_request):
    """They preempted each other until nothing moved (vllm#25538)."""
    engine, recorder = an_engine(num_blocks=6, max_num_seqs=2)
    both = [a_request(id, 30, max_tokens=60) for id in "ab"]
    for request in both:
        engine.add(request)

    recorder.run(engine, steps=200)

    assert not engine.has_work
    assert engine.stats().preemptions <= 2
    assert all(len(recorder.tokens(id)) == 60 for id in "ab")


def test_a_request_that_needs_almost_the_whole_pool_runs_beside_another(
    an_engine, a_request, alone
):
    """10 prompt tokens and 4,084 more never started in a pool of 4,096 (sglang#28530)."""
    big = a_request("big", 10, max_tokens=116)
    small = a_request("small", 10, max_tokens=4)
    engine, recorder = an_engine(num_blocks=8)

    run(engine, recorder, small, big)

    assert recorder.tokens("big") == alone(big)


@pytest.mark.parametrize("seed", range(3))
def test_at_rest_every_block_is_free_whatever_went_before(an_engine, a_request, seed):
    """An engine whose counts had drifted killed itself when it was idle (sglang#35270)."""
    draw = random.Random(seed)
    engine, recorder = an_engine(num_blocks=12, max_num_seqs=4)
    for number in range(60):
        if draw.random() < 0.5:
            length, most = draw.randrange(1, 90), draw.randrange(0, 40)
            engine.add(a_request(str(number), length, max_tokens=most))
        if draw.random() < 0.2:
            engine.abort(str(draw.randrange(number + 1)))
        recorder.run(engine, steps=1)

    recorder.run(engine)

    stats = engine.stats()
    assert (stats.num_running, stats.num_queued) == (0, 0)
    assert stats.num_free_blocks == stats.num_blocks == 12


def test_a_late_result_of_an_aborted_sequence_is_nobodys(an_engine, a_request, alone):
    """It ended the engine (LMCache#4185); here its id may even be in use again."""
    again = a_request("a", 25, max_tokens=5)
    engine, recorder = an_engine()
    engine.add(a_request("a", 20, max_tokens=30))
    recorder.run(engine, steps=3)
    engine.abort("a")
    recorder.updates.clear()

    run(engine, recorder, again)

    assert recorder.tokens("a") == alone(again)
    assert recorder.updates["a"][-1].num_output_tokens == 5
