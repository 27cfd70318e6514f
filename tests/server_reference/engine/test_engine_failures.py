"""A step that raises: who fails, who goes on, and that the books balance."""

from __future__ import annotations

import json

import pytest

from server_reference.attention.backend import PagedCache
from server_reference.attention.cpu_attention import TorchAttention
from server_reference.checkpoints.tiny import TINY
from server_reference.core import Grammar


class Failing:
    """Attention that raises in chosen steps, counted from 1, as a device without memory does."""

    def __init__(self, dtype, *steps, during="layers"):
        cache = PagedCache(TINY, num_blocks=64, block_size=16, dtype=dtype)
        self._inner = TorchAttention(TINY, cache)
        self._steps = dict.fromkeys(steps)
        self._during = during
        self._step = 0

    def begin(self, batch):
        self._step += 1
        self._raise("begin")
        self._inner.begin(batch)

    def __call__(self, *given):
        self._raise("layers")
        return self._inner(*given)

    def _raise(self, during):
        if self._step in self._steps and during == self._during:
            raise RuntimeError("out of memory: tried to allocate 2.00 GiB")


@pytest.fixture
def failing(an_engine, tiny):
    def make(*steps, during="layers", **config):
        return an_engine(attention=Failing(tiny.transformer.dtype, *steps, during=during), **config)

    return make


def finish_reasons(recorder):
    return {id: updates[-1].finish_reason for id, updates in recorder.updates.items()}


def assert_empty(engine):
    engine.scheduler.check()
    stats = engine.stats()
    assert (stats.num_free_blocks, stats.num_running, stats.num_queued) == (64, 0, 0)
    assert not engine.has_work


@pytest.mark.parametrize("during", ["begin", "layers"])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_step_that_raises_fails_its_sequences_and_the_next_ones_run(
    failing, a_request, during, step
):
    engine, recorder = failing(step, during=during)
    engine.add(a_request("a", 40))
    engine.add(a_request("b", 3))
    recorder.run(engine)
    failed = finish_reasons(recorder)
    cached = engine.stats().num_cached_blocks

    engine.add(a_request("c", 40))
    recorder.run(engine)

    assert failed == {"a": "error", "b": "error"}
    assert "RuntimeError" in recorder.updates["a"][-1].error
    assert cached == 0
    assert finish_reasons(recorder)["c"] == "length"
    assert_empty(engine)


def test_what_was_known_before_a_step_failed_is_told(failing, a_request):
    """The update of the step before comes with the failure of the one that raised."""
    engine, recorder = failing(4)
    engine.add(a_request("a"))

    recorder.run(engine)

    told = recorder.updates["a"]
    assert sum(len(update.token_ids) for update in told) == told[-1].num_output_tokens
    assert [update.finish_reason for update in told] == [None] * (len(told) - 1) + ["error"]


def test_who_waits_while_a_step_fails_runs_next(failing, a_request):
    engine, recorder = failing(2, max_num_seqs=1)
    engine.add(a_request("a", 40))
    engine.add(a_request("b", 40))

    recorder.run(engine)

    assert finish_reasons(recorder) == {"a": "error", "b": "length"}
    assert_empty(engine)


@pytest.mark.parametrize("which", [MemoryError, ValueError])
def test_an_error_after_the_forward_pass_fails_the_step_too(an_engine, a_request, which):
    raised = iter([which("sampled")])

    def on_logits(sequences, logits):
        for error in raised:
            raise error

    engine, recorder = an_engine(on_logits=on_logits)
    engine.add(a_request("a"))
    recorder.run(engine)
    engine.add(a_request("b"))
    recorder.run(engine)

    assert finish_reasons(recorder) == {"a": "error", "b": "length"}
    assert_empty(engine)


def test_failed_steps_in_a_row_are_counted(failing, a_request):
    engine, recorder = failing(1, 2, 4)
    counted = []
    for id in "abc":
        engine.add(a_request(id, max_tokens=1))
        recorder.run(engine)
        counted.append(engine.failed_steps)

    assert counted == [1, 2, 0]


def test_an_interrupt_leaves_the_books_balanced_and_goes_on_up(an_engine, a_request):
    """Whoever runs an engine in this process may press Ctrl-C and generate again."""

    def on_logits(sequences, logits):
        raise KeyboardInterrupt

    engine, recorder = an_engine(on_logits=on_logits)
    engine.add(a_request("a"))

    with pytest.raises(KeyboardInterrupt):
        recorder.run(engine)

    assert_empty(engine)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"prompt": [1, 9999]}, id="a-token-beyond-the-vocabulary"),
        pytest.param({"prompt": [-1]}, id="a-negative-token"),
        pytest.param({"prompt": [1.5]}, id="a-token-that-is-no-integer"),
        pytest.param({"stop": (5,)}, id="a-stop-that-is-no-text"),
        pytest.param({"grammar": "a+"}, id="a-grammar-that-is-none"),
        pytest.param({"max_tokens": 4096}, id="more-than-fits"),
    ],
)
def test_what_cannot_be_run_is_refused_and_leaves_nothing(an_engine, a_request, odd):
    """Once among others, it would fail the step of all of them."""
    engine, recorder = an_engine()
    engine.add(a_request("a"))

    with pytest.raises(ValueError, match=r"prompt|stop must be|grammar must be"):
        engine.add(a_request("b", **odd))
    recorder.run(engine)

    assert finish_reasons(recorder) == {"a": "length"}
    assert_empty(engine)


def test_an_end_of_turn_that_the_model_has_no_logit_for_is_never_drawn(an_engine, a_request, words):
    """Of a tokenizer with more tokens than the model."""
    engine, recorder = an_engine(words(eos=[5000]))
    engine.add(a_request("a", min_tokens=4))

    recorder.run(engine)

    assert finish_reasons(recorder) == {"a": "length"}


MANY = {"type": "object", "properties": {f"p{at}": {"type": "null"} for at in range(300)}}
TOO_MANY = {"anyOf": [MANY, MANY | {"properties": {f"q{at}": {} for at in range(300)}}]}
LATE = {"type": "array", "prefixItems": [{"const": "abababababab"}, TOO_MANY], "minItems": 2}


@pytest.mark.parametrize("num_draft_tokens", [0, 4])
@pytest.mark.parametrize(
    ("schema", "text"),
    [pytest.param(TOO_MANY, "", id="at-once"), pytest.param(LATE, '["abababababab", ', id="late")],
)
def test_a_grammar_that_can_go_no_further_ends_its_row_alone(
    an_engine, a_request, tiny, schema, text, num_draft_tokens
):
    """Its caller has to change it: sent again as it is, it would come as far."""
    engine, recorder = an_engine(tiny, num_draft_tokens=num_draft_tokens)
    grammar = Grammar(kind="json_schema", source=json.dumps(schema))
    prompt = [*b'["abababababab",{}] ' * 3]
    bias = ((ord(" "), 50.0), (257, 50.0))  # the end of the turn, wherever it is allowed
    engine.add(a_request("bad", prompt=prompt, grammar=grammar, max_tokens=40, logit_bias=bias))
    engine.add(a_request("ok", max_tokens=40))

    recorder.run(engine)

    told, last = recorder.text("bad"), recorder.updates["bad"][-1]
    assert (finish_reasons(recorder), told) == ({"bad": "invalid", "ok": "length"}, text)
    assert f"no further under its grammar, after {len(text)} tokens: Parser Error" in last.error
    assert "; simplify the schema" in last.error
    assert engine.failed_steps == 0
    assert engine.stats().num_cached_blocks >= 6  # all of both prompts: their numbers are right
    assert_empty(engine)
