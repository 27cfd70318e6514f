"""Rows whose numbers are none: each fails alone, and nothing of it is found again.

Whatever becomes of its sequence in the step in which that shows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from server_reference.attention.backend import PagedCache
from server_reference.attention.tiled_attention import TiledAttention
from server_reference.checkpoints.tiny import TINY

PROMPT = list(range(1, 41))


class Breaking:
    """Attention in which one key is no number: of a sequence, by its arrival, at a position."""

    def __init__(self, dtype, place, *, num_blocks):
        cache = PagedCache(TINY, num_blocks=num_blocks, block_size=16, dtype=dtype)
        self._inner = TiledAttention(TINY, cache)
        self._place = place
        self._rows = []

    def begin(self, batch):
        owners = np.repeat(np.arange(len(batch.owners)), np.diff(batch.query_start))
        arrivals = [batch.owners[owner][0] for owner in owners]
        places = zip(arrivals, batch.positions.tolist(), strict=True)
        self._rows = [row for row, place in enumerate(places) if place == self._place]
        self._inner.begin(batch)

    def __call__(self, layer, qkv, heads, cos, sin):
        q, k, v = heads.split(qkv, cos, sin)
        k[self._rows] = torch.nan
        return self._inner.attend(layer, q, k, v)


@pytest.fixture
def breaking(an_engine, tiny):
    """Makes an engine whose model fails at a place of the sequence that came as `arrival`."""

    def make(position, *, arrival=0, num_blocks=64, **config):
        place = (arrival, position)
        attention = Breaking(tiny.transformer.dtype, place, num_blocks=num_blocks)
        return an_engine(attention=attention, num_blocks=num_blocks, **config)

    return make


def run(engine, recorder, *requests):
    for request in requests:
        engine.add(request)
    recorder.run(engine)
    return recorder


def outcomes(recorder):
    return {id: updates[-1].finish_reason for id, updates in recorder.updates.items()}


def found(engine, recorder, request):
    """How much of the prompt of a further request is cached."""
    run(engine, recorder, request)
    return recorder.updates[request.id][-1].num_cached_tokens


def test_a_row_of_a_decode_fails_and_its_prompt_is_not_found_again(breaking, a_request):
    engine, recorder = breaking(50)

    run(engine, recorder, a_request("bad", prompt=PROMPT, max_tokens=30))

    assert outcomes(recorder) == {"bad": "error"}
    assert found(engine, recorder, a_request("next", prompt=PROMPT)) == 0


def test_who_is_preempted_meanwhile(breaking, an_engine, a_request):
    """At a lookahead of 1 it has lost its blocks when it is known what they are worth."""
    requests = [a_request("a", 30, max_tokens=40), a_request("bad", prompt=PROMPT, max_tokens=40)]
    engine, recorder = an_engine(num_blocks=7)
    run(engine, recorder, *requests)
    records = engine.explain(64)
    at = next(at for at, record in enumerate(records) if "bad" in record.preempted)
    last = next(one for one in records[at - 1].scheduled if one.id == "bad").start

    engine, recorder = breaking(last, arrival=1, num_blocks=7)
    run(engine, recorder, *requests)

    assert outcomes(recorder) == {"a": "length", "bad": "error"}
    assert found(engine, recorder, a_request("next", prompt=PROMPT, max_tokens=1)) == 0


@pytest.mark.parametrize("how", ["abort", "deadline"])
def test_who_is_taken_out_meanwhile(breaking, a_request, how):
    """Nobody waits for that row any more, and still it tells of the ones before it."""
    now = [0.0]
    engine, recorder = breaking(44, clock=lambda: now[0])
    engine.add(replace(a_request("bad", prompt=PROMPT, max_tokens=30), deadline=5.0))
    recorder.run(engine, steps=5)  # the fifth computes position 43, as does the next one 44

    recorder.run(engine, steps=1)
    now[0] = 9.0
    if how == "abort":
        engine.abort("bad")
    recorder.run(engine)

    assert found(engine, recorder, a_request("next", prompt=PROMPT)) == 0


def test_who_is_aborted_by_whoever_sees_its_step(breaking, a_request):
    def on_logits(sequences, logits):
        if not logits.isfinite().all():
            engine.abort("bad")

    engine, recorder = breaking(44, on_logits=on_logits)
    run(engine, recorder, a_request("bad", prompt=PROMPT, max_tokens=30))

    assert found(engine, recorder, a_request("next", prompt=PROMPT)) == 0


@pytest.mark.parametrize("max_tokens", [0, 8])
@pytest.mark.parametrize("share", [16, 24, 256])
def test_a_part_of_a_prompt_fails_before_anyone_can_find_it(breaking, a_request, max_tokens, share):
    """No logits are made of it, so that it would be known only with the prompt's last part."""
    engine, recorder = breaking(5, max_prefill_share=share)
    engine.add(a_request("bad", prompt=PROMPT, max_tokens=max_tokens))
    cached = []
    while engine.has_work:
        recorder.run(engine, steps=1)
        cached.append(engine.stats().num_cached_blocks)

    assert outcomes(recorder) == {"bad": "error"}
    assert "not numbers" in recorder.updates["bad"][-1].error
    assert set(cached) == {0}


@pytest.mark.parametrize("position", [5, 50])
def test_who_asks_for_the_logprobs_of_its_prompt(breaking, a_request, position):
    engine, recorder = breaking(position, max_prefill_share=16)
    request = a_request("bad", prompt=PROMPT, max_tokens=20, prompt_logprobs=1)

    run(engine, recorder, request)

    assert outcomes(recorder) == {"bad": "error"}
    assert found(engine, recorder, a_request("next", prompt=PROMPT)) == 0


@pytest.mark.parametrize("position", range(100, 106))
def test_a_draft_that_was_right(breaking, a_request, position):
    engine, recorder = breaking(position, num_draft_tokens=8)
    prompt = [7, 8, 9] * 8

    run(engine, recorder, a_request("bad", prompt=prompt, max_tokens=100))

    assert engine.stats().draft_tokens_accepted > 0
    assert outcomes(recorder) == {"bad": "error"}
    assert found(engine, recorder, a_request("next", prompt=prompt)) == 0


def test_others_that_read_its_blocks_go_on_and_share_nothing_more(breaking, a_request, an_engine):
    alone = run(*an_engine(), a_request("b", prompt=[*PROMPT, 9], max_tokens=60)).tokens("b")
    engine, recorder = breaking(60)
    engine.add(a_request("bad", prompt=[*PROMPT, 8], max_tokens=60))
    recorder.run(engine, steps=3)

    run(engine, recorder, a_request("b", prompt=[*PROMPT, 9], max_tokens=60))

    assert outcomes(recorder) == {"bad": "error", "b": "length"}
    assert recorder.updates["b"][-1].num_cached_tokens == 32
    assert recorder.tokens("b") == alone
    assert engine.stats().num_cached_blocks == 0
    assert engine.stats().num_free_blocks == 64
