"""Whatever an engine's history, its fast numerics agree with one dense pass over each sequence.

Layers with and without windows; mirrors that hold every sequence, some, and none.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from server_reference.checkpoints.tiny import TINY
from tests.server_reference.engine.histories import histories, live_through
from tests.server_reference.models.dense import all_logits

LENS = {"a": 1, "b": 15, "c": 17, "d": 40, "e": 60, "f": 100}
BLOCK_BYTES = 32_768


@pytest.fixture(scope="module")
def windowed(words):
    """The built-in model with windows in two of its four layers."""
    model = words()
    config = replace(TINY, windows=(None, 20, 70, None))
    return replace(model, transformer=type(model.transformer)(config, model.transformer.weights))


@pytest.fixture(scope="module")
def requests(a_request):
    """The prompts begin alike, so that they share blocks where one has computed them."""
    prompt = a_request("f", LENS["f"]).prompt_token_ids
    return {id: a_request(id, prompt=prompt[:n], max_tokens=24) for id, n in LENS.items()}


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"num_blocks": 48}, id="all-mirrored"),
        pytest.param({"num_blocks": 11}, id="some-mirrored"),
        pytest.param({"num_blocks": 11, "lookahead": 1}, id="some-mirrored-one-ahead"),
        pytest.param({"num_blocks": None, "kv_memory_bytes": 15 * BLOCK_BYTES}, id="none-mirrored"),
    ],
)
@settings(max_examples=12)
@given(history=histories(LENS, most_steps=12, max_size=20))
def test_any_history_agrees_with_a_dense_pass(an_engine, windowed, requests, config, history):
    config = {"numerics": "fast", "max_prefill_share": 20, "max_num_seqs": 4} | config
    engine, recorder = an_engine(windowed, **config)

    live_through(history, engine, recorder, requests)

    for id in recorder.logits:
        assert_dense(windowed, requests[id].prompt_token_ids, recorder, id)


def assert_dense(model, prompt, recorder, id):
    outputs = recorder.tokens(id)
    expected = all_logits(model.transformer, prompt + outputs)[len(prompt) - 1 :]
    logits = torch.stack(recorder.logits[id])[: len(expected)]
    torch.testing.assert_close(logits, expected[: len(logits)], atol=1e-3, rtol=0)


def test_these_engines_do_mirror_all_some_and_none(an_engine, windowed):
    """Else the test above would say less than its name."""
    options = [{"num_blocks": 48}, {"num_blocks": 11}, {"kv_memory_bytes": 15 * BLOCK_BYTES}]
    fast = {"numerics": "fast", "num_blocks": None}

    notes = [an_engine(windowed, **(fast | one))[0].notes[1] for one in options]

    assert [re.findall(r"mirror of (\d+) tokens", note) for note in notes] == [
        ["768"],
        ["176"],
        ["60"],
    ]
