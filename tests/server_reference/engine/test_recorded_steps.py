"""Recorded steps as sequences come, go, wait and fail; nobody looks at the logits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.server_reference.engine.triton_bodies import PLAIN, SIZES, a_body, a_model  # isort: skip

from server_reference.attention.triton_attention import TritonAttention  # isort: skip
from server_reference.engine.engine import Engine  # isort: skip
from server_reference.kernels import eager, fused  # isort: skip
from tests.server_reference.engine.conftest import EXACT, Recorder  # isort: skip
from tests.server_reference.engine.replayed import Replayed  # isort: skip


class Failing(TritonAttention):
    """It raises in the second layer of a step, or after a replay, when it is told to."""

    fails = False

    def __call__(self, layer, *given):
        if layer == 1:
            self.fail()
        return super().__call__(layer, *given)

    def capture(self, run):
        replay, result = Replayed()(run)
        return lambda: (replay(), self.fail()), result

    def fail(self):
        if self.fails:
            self.fails = False
            raise RuntimeError("no memory is left")


@pytest.fixture
def recorded(lookahead):
    """An engine whose decodes are replayed, and its attention."""

    def make(**settings):
        model = a_model(PLAIN, fused)
        body = a_body(
            model.transformer,
            recorded=True,
            attention_type=Failing,
            capture_of=lambda attention: attention.capture,
        )
        config = replace(EXACT, **(SIZES | {"lookahead": lookahead} | settings))
        return Engine(model, config, body=body), body.attention

    return make


@pytest.fixture
def expected(an_engine):
    """What torch draws for each of some requests."""

    def run(requests):
        engine, recorder = an_engine(a_model(PLAIN, eager), **SIZES)
        for request in requests:
            engine.add(request)
        recorder.run(engine)
        return tokens(recorder)

    return run


@pytest.fixture
def requests(a_request):
    return [
        a_request("a", prompt=[*range(17)], max_tokens=9),
        a_request("b", prompt=[3, 5, 7], max_tokens=7, temperature=0.9, top_p=0.9, seed=7),
        a_request("c", prompt=[9, 1, 4, 4, 2, 8], max_tokens=6, repetition_penalty=1.3),
        a_request("d", prompt=[6, 6], max_tokens=8, logprobs=1),
    ]


def tokens(recorder):
    return {
        id: [token for update in updates for token in update.token_ids]
        for id, updates in recorder.updates.items()
    }


def test_who_is_preempted_goes_on_where_it_was(recorded, expected, requests):
    engine, _ = recorded(num_blocks=8)
    recorder = Recorder()
    for request in requests:
        engine.add(request)

    recorder.run(engine)

    assert engine.stats().preemptions > 0
    assert tokens(recorder) == expected(requests)


def test_who_is_aborted_leaves_its_row_and_blocks_to_another(recorded, expected, requests):
    engine, _ = recorded(num_blocks=18)
    recorder = Recorder()
    for request in requests:
        engine.add(request)
    recorder.run(engine, steps=5)

    engine.abort("a")
    late = replace(requests[0], id="late")
    engine.add(late)
    recorder.run(engine)

    right = expected(requests)
    found = tokens(recorder)
    assert found.pop("a") == right["a"][: len(tokens(recorder)["a"])]
    assert found.pop("late") == right.pop("a")
    assert found == {id: right[id] for id in "bcd"}


@pytest.mark.parametrize("steps", [1, 5])
def test_after_a_launch_that_raised_the_next_ones_are_right(recorded, expected, requests, steps):
    engine, attention = recorded(num_draft_tokens=4)
    recorder = Recorder()
    for request in requests:
        engine.add(request)
    recorder.run(engine, steps=steps)

    attention.fails = True
    recorder.run(engine)
    assert {updates[-1].finish_reason for updates in recorder.updates.values()} == {"error"}
    recorder.updates.clear()
    for request in requests:
        engine.add(request)
    recorder.run(engine)

    assert tokens(recorder) == expected(requests)
