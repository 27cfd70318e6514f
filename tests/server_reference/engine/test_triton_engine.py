"""An engine whose model runs on Triton kernels, in the interpreter, beside one on PyTorch."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType

import pytest
import torch

from tests.server_reference.kernels.interpreted import launched, shuffled

from server_reference.core import Grammar  # isort: skip
from server_reference.kernels import eager, fused  # isort: skip
from server_reference.kernels.manifest import MANIFEST, read  # isort: skip
from server_reference.text.tokenizer import ByteTokenizer  # isort: skip
from tests.server_reference.engine.triton_bodies import MODELS, PLAIN, SEQS, SIZES, a_body, a_model  # isort: skip

NO_SETTINGS = MappingProxyType({})


@pytest.fixture
def run(an_engine):
    """Runs requests through an engine; `recorded`: decodes are replayed."""

    def run(config, requests, *, triton=True, settings=NO_SETTINGS, tokenizer=None, **options):
        model = a_model(config, fused if triton else eager)
        model = replace(model, tokenizer=tokenizer or model.tokenizer)
        body = a_body(model.transformer, **options) if triton else None
        engine, recorder = an_engine(model, body=body, **(SIZES | settings))
        for request in requests:
            engine.add(request)
        recorder.run(engine)
        tokens = {request.id: recorder.tokens(request.id) for request in requests}
        return tokens, recorder, engine.stats()

    return run


@pytest.fixture
def requests(a_request):
    """Greedy and random ones, with rules and without, that come and go at different times."""

    def prompt(count):
        return torch.randint(96, (count,), generator=torch.Generator().manual_seed(count)).tolist()

    return [
        a_request("greedy", prompt=prompt(17), max_tokens=16),
        a_request("nucleus", prompt=prompt(3), max_tokens=9, temperature=0.9, top_p=0.9, seed=7),
        a_request("top-k", prompt=prompt(6), max_tokens=5, temperature=1.0, top_k=5, seed=3),
        a_request(
            "rules",
            prompt=prompt(2),
            max_tokens=7,
            temperature=1.2,
            min_p=0.05,
            seed=1,
            repetition_penalty=1.3,
            logit_bias=((5, 2.0), (7, -30.0)),
            logprobs=2,
        ),
    ]


@pytest.mark.parametrize("recorded", [False, True], ids=["launched", "recorded"])
@pytest.mark.parametrize("model", MODELS)
def test_both_backends_draw_the_same_tokens(run, requests, model, recorded):
    ours, *_ = run(MODELS[model], requests, recorded=recorded)

    theirs, *_ = run(MODELS[model], requests, triton=False)

    assert ours == theirs


def test_a_step_may_have_fewer_tokens_than_sequences_are_recorded(run, a_request):
    request = a_request(prompt=[1, 2, 3], max_tokens=3)
    few = {"max_step_tokens": SEQS - 1, "max_prefill_share": SEQS - 1}

    ours, *_ = run(PLAIN, [request], recorded=True, settings=few, tokens=SEQS - 1)

    assert ours == run(PLAIN, [request], triton=False, settings=few)[0]


def test_the_order_of_programs_does_not_matter(run, requests):
    in_order, *_ = run(PLAIN, requests[:2])

    with shuffled(1):
        out_of_order, *_ = run(PLAIN, requests[:2])

    assert out_of_order == in_order


def test_logprobs_outlive_the_step_that_takes_the_place_of_theirs(run, a_request):
    requests = [
        a_request(id, prompt=[at, 3], max_tokens=6, logprobs=3) for at, id in enumerate("ab")
    ]

    _, recorded, _ = run(PLAIN, requests, recorded=True)
    _, at_once, _ = run(PLAIN, requests, triton=False)

    def told(recorder):
        return [
            (one.token_id, one.logprob)
            for id in "ab"
            for update in recorder.updates[id]
            for one in update.logprobs
        ]

    assert [token for token, _ in told(recorded)] == [token for token, _ in told(at_once)]
    assert [value for _, value in told(recorded)] == pytest.approx(
        [value for _, value in told(at_once)], abs=1e-4
    )


def test_an_fp8_cache_stays_close(run, a_request):
    request = a_request(prompt=list(range(20)), max_tokens=1)

    _, narrow, _ = run(PLAIN, [request], kv_dtype=torch.float8_e4m3fn)
    _, exact, _ = run(PLAIN, [request], triton=False)

    (ours,), (theirs,) = narrow.logits["a"], exact.logits["a"]
    assert 0 < (ours.softmax(0) - theirs.softmax(0)).abs().sum() < 0.3


def test_drafts_from_the_device_are_those_of_the_host(run, a_request):
    """A text that repeats itself: what is guessed is the same, and so is what is drawn."""
    requests = [
        a_request("a", prompt=[5, 6, 7, 8] * 4, max_tokens=12),
        a_request("b", prompt=[9, 3, 9, 3, 9], max_tokens=8, temperature=0.5, seed=4),
    ]
    guessing = {"num_draft_tokens": 4}

    ours, _, stats = run(PLAIN, requests, settings=guessing)
    theirs, _, of_the_host = run(PLAIN, requests, triton=False, settings=guessing)

    assert ours == theirs
    assert stats.draft_tokens_proposed == of_the_host.draft_tokens_proposed > 0
    assert stats.draft_tokens_accepted == of_the_host.draft_tokens_accepted


def test_every_kernel_that_is_compiled_beforehand_is_launched(run, requests, a_request):
    """What no engine launches is none; and a grammar is kept to."""
    grammar = Grammar(kind="regex", source="[a-c]{3}")
    request = a_request("g", prompt=[1, 2], max_tokens=8, temperature=1.0, seed=2, grammar=grammar)
    bytewise = replace(MODELS["windows-and-caps"], vocab_size=ByteTokenizer().vocab_size)
    settings = {"num_draft_tokens": 4}
    given = {"tokenizer": ByteTokenizer(), "settings": settings}
    launched.clear()

    ours, *_ = run(bytewise, [requests[0], requests[3], request], **given)

    assert launched >= {row.kernel for row, _ in read(MANIFEST)}
    assert ours == run(bytewise, [requests[0], requests[3], request], triton=False, **given)[0]
    assert re.fullmatch("[a-c]{3}", bytes(ours["g"][:3]).decode())
