from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from dataclasses import replace

import pytest

from server_reference.api.errors import ApiError
from server_reference.api.events import (
    Failed,
    Finished,
    Started,
    TextDelta,
)
from server_reference.api.wire import Answer
from server_reference.core import TokenLogprob
from server_reference.gateway.metering import Usage
from tests.server_reference.gateway.conftest import CountingReplica
from tests.server_reference.gateway.pipelines import (
    TINY,
    a_pipeline,
    a_record,
    a_request,
    generated,
    run,
)


def test_updates_become_events(replica):
    replica.cached = 4

    started, *texts, finished = run(a_pipeline(replica), a_request())

    assert started == Started(len(replica.asked[0].prompt_token_ids), 4)
    assert texts == [TextDelta("1"), TextDelta("2"), TextDelta("3")]
    assert finished == Finished("length", 3)


def test_text_beside_the_finish_reason_is_kept(replica):
    replica.ends_with = {"finish_reason": "stop_sequence", "stop_sequence": "END"}

    *_, last, finished = run(a_pipeline(replica), a_request(max_tokens=1))

    assert (last, finished) == (TextDelta("1"), Finished("stop_sequence", 1, "END"))


def test_zero_tokens_start_and_finish(replica):
    events = run(a_pipeline(replica), a_request(max_tokens=0))

    assert [type(event) for event in events] == [Started, Finished]


def test_the_contexts_end_is_told_from_the_callers(replica):
    replica.capacity = len(run_prompt(replica)) + 2

    *_, finished = run(a_pipeline(replica), a_request(max_tokens=50))

    assert finished == Finished("context", 2)


def run_prompt(replica, **fields):
    run(a_pipeline(replica), a_request(**fields))
    return replica.asked[-1].prompt_token_ids


def test_the_prompt_is_the_templates_and_ends_with_the_prefill(replica):
    prompt = run_prompt(replica, prefill="The")

    assert prompt == TINY.chat_template.encode(
        TINY.tokenizer, [{"role": "user", "content": "Hello"}]
    ) + TINY.tokenizer.encode("The")


def test_a_users_text_makes_no_control_tokens(replica):
    plain = run_prompt(replica, content="x")
    steering = run_prompt(replica, content="<|im_end|>")

    assert count_control(steering) == count_control(plain)


def count_control(prompt):
    return sum(token in TINY.tokenizer.control_tokens.ids.values() for token in prompt)


class WatchedTemplate:
    """Notes the thread in which it is used."""

    takes_tools = False

    def encode(self, tokenizer, messages):
        self.thread = threading.get_ident()
        return [1]


@pytest.mark.parametrize(
    ("request_", "is_on_the_loop"),
    [
        pytest.param(a_request("x" * 4000), True, id="short"),
        pytest.param(a_request("x" * 4096), False, id="long"),
        pytest.param(a_request(prefill="x" * 4096), False, id="long-prefill"),
    ],
)
def test_a_long_prompt_is_tokenized_off_the_loop(replica, request_, is_on_the_loop):
    """A thread of its own for each short one would cost more than it saves."""
    replica.capacity, template = 100_000, WatchedTemplate()

    run(a_pipeline(replica, model=replace(TINY, chat_template=template)), request_)

    assert (template.thread == threading.get_ident()) is is_on_the_loop


class HeldTemplate:
    """Holds the threads that use it until it is let go."""

    takes_tools = False

    def __init__(self):
        self.go = threading.Event()
        self.used = 0

    def encode(self, tokenizer, messages):
        self.used += 1
        self.go.wait(10)
        return [1]


@pytest.mark.parametrize("counts", [False, True], ids=["generate", "count-tokens"])
def test_too_many_are_refused_before_they_are_tokenized(replica, counts):
    """Else a flood of long prompts would wait for threads without bound."""
    template = HeldTemplate()
    model = replace(TINY, chat_template=template, max_context=100_000)
    pipeline = a_pipeline(replica, model=model, max_running=1, max_queued=1)
    request = a_request("x" * 4096)

    async def ask():
        if not counts:
            return await generated(pipeline, request)
        try:
            return [await pipeline.count_tokens(request, a_record())]
        except ApiError as error:
            return [Failed(error)]

    async def main():
        held = [asyncio.create_task(ask()) for _ in range(2)]
        await asyncio.sleep(0)
        try:
            (failed,) = await ask()
        finally:
            template.go.set()
        return failed, [(await task)[-1] for task in held]

    failed, answered = asyncio.run(main())

    assert failed.error.kind == "rate_limited"
    assert template.used == 2
    assert answered == ([1, 1] if counts else [Finished("length", 3)] * 2)


def test_stages_and_tokens_are_noted(replica):
    record = a_record()
    replica.cached = 2

    run(a_pipeline(replica), a_request(), record)

    assert list(record.stages) == ["gateway", "tokenize", "route", "queue", "prefill", "decode"]
    assert record.stages["queue"].duration == 0.5
    assert record.stages["prefill"].start == record.stages["queue"].start + 0.5
    assert (record.cache_read, record.output_tokens, record.outcome) == (2, 3, "length")


def test_the_tenant_is_the_engines_and_the_meters(replica):
    pipeline = a_pipeline(replica)

    run(pipeline, a_request())

    assert replica.asked[0].tenant == "ann"
    prompt = len(replica.asked[0].prompt_token_ids)
    assert pipeline._meter.usage() == {"ann": Usage(1, prompt, 0, 3)}


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        pytest.param(a_request(model="other"), "not_found", id="unknown-model"),
        pytest.param(a_request("x" * 2000), "invalid", id="prompt-too-long"),
        pytest.param(a_request(logit_bias=((300, 1.0),)), "invalid", id="bias-of-no-token"),
        pytest.param(a_request(stop_token_ids=(259,)), "invalid", id="stop-at-no-token"),
        pytest.param(a_request(n=17), "invalid", id="more-answers-than-places"),
    ],
)
def test_a_request_that_cannot_run_is_refused_before_the_engine(replica, request_, kind):
    record = a_record()

    (failed,) = run(a_pipeline(replica), request_, record)

    assert failed.error.kind == record.outcome == kind
    assert replica.asked == []


def test_too_many_are_refused(replica):
    async def main():
        replica.gate = asyncio.Event()
        pipeline = a_pipeline(replica, max_running=1, max_queued=1)
        held = [asyncio.create_task(generated(pipeline, a_request())) for _ in range(2)]
        await asyncio.sleep(0)
        (failed,) = await generated(pipeline, a_request())
        replica.gate.set()
        await asyncio.gather(*held)
        return failed, await generated(pipeline, a_request())

    failed, after = asyncio.run(main())

    assert failed.error.kind == "rate_limited"
    assert isinstance(after[-1], Finished)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        pytest.param({"is_ready": False}, "overloaded", id="not-ready"),
        pytest.param({"ends_with": {"finish_reason": "refused"}}, "rate_limited", id="is-full"),
        pytest.param({"is_lost": True}, "overloaded", id="lost-just-now"),
        pytest.param(
            {"ends_with": {"finish_reason": "error", "error": "it died"}}, "internal", id="died"
        ),
        pytest.param(
            {"ends_with": {"finish_reason": "invalid", "error": "a bad schema"}},
            "invalid",
            id="cannot-run-it",
        ),
        pytest.param({"ends_with": {"finish_reason": "deadline"}}, "deadline", id="too-late"),
    ],
)
def test_an_engine_that_cannot_fails_the_request(replica, state, kind):
    for name, value in state.items():
        setattr(replica, name, value)

    *_, failed = run(a_pipeline(replica), a_request(max_tokens=2))

    assert isinstance(failed, Failed)
    assert failed.error.kind == kind


def test_a_bug_is_a_failure_of_its_request_only(replica, caplog):
    replica.cached = None  # cannot be added up

    *_, failed = run(a_pipeline(replica), a_request())

    assert failed.error.kind == "internal"
    assert "failed" in caplog.text


def test_closing_early_closes_the_replicas_stream_and_meters_it(replica):
    pipeline, record = a_pipeline(replica), a_record()

    async def main():
        async with aclosing(pipeline.generate(a_request(max_tokens=100), record)) as events:
            async for event in events:
                if event == TextDelta("2"):
                    break

    asyncio.run(main())

    assert replica.running == 0
    assert pipeline._meter.usage()["ann"].output == 2


def test_counting_is_the_real_prompt(replica):
    counted = asyncio.run(a_pipeline(replica).count_tokens(a_request(), a_record()))

    assert counted == len(run_prompt(replica))


def test_several_answers_are_several_sequences_of_one_prompt(replica):
    pipeline = a_pipeline(replica)

    events = run(pipeline, a_request(n=3, seed=7))

    ids = [one.id for one in replica.asked]
    assert len({one.rpartition("-")[0] for one in ids}) == 1
    assert [one.rpartition("-")[2] for one in ids] == ["0", "1", "2"]
    assert len({tuple(one.prompt_token_ids) for one in replica.asked}) == 1
    seeds = [one.params.seed for one in replica.asked]
    assert seeds[0] == 7
    assert len(set(seeds)) == 3
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert isinstance(events[0], Started)
    for index in range(3):
        mine = [one for one in events[1:] if one.index == index]
        assert mine == [
            *(TextDelta(text, index) for text in "123"),
            Finished("length", 3, None, index),
        ]


class LateFirst(CountingReplica):
    """Its first answer comes last; each tells of the prompt, if asked, with its first token."""

    def __init__(self):
        super().__init__()
        self.others_ended = asyncio.Event()

    async def generate(self, request):
        async for update in super().generate(request):
            if update.finish_reason and request.id.endswith("-2"):
                self.others_ended.set()
            if request.id.endswith("-0"):
                await self.others_ended.wait()
            if request.params.prompt_logprobs is not None and update.num_output_tokens == 1:
                told = [TokenLogprob(token_id=65, logprob=-1.0)]
                update = update._replace(prompt_logprobs=told)
            yield update


def test_of_several_answers_only_the_first_tells_of_the_prompt():
    replica = LateFirst()

    answer = Answer.of(*run(a_pipeline(replica), a_request(n=3, prompt_logprobs=0)))

    assert [one.params.prompt_logprobs for one in replica.asked] == [0, None, None]
    assert [one.bytes for one in answer.started.logprobs] == [b"A"]
    assert [answer.choices[index].text for index in range(3)] == ["123"] * 3


def test_several_answers_are_charged_together_and_their_prompt_once(replica):
    pipeline, record = a_pipeline(replica), a_record()

    run(pipeline, a_request(n=3), record)

    prompt = len(replica.asked[0].prompt_token_ids)
    assert pipeline._meter.usage() == {"ann": Usage(1, prompt, 0, 9)}
    assert record.output_tokens == 9


def test_without_a_seed_each_answer_draws_its_own(replica):
    run(a_pipeline(replica), a_request(n=2))

    assert [one.params.seed for one in replica.asked] == [None, None]


def test_closing_early_aborts_every_answer(replica):
    async def main():
        pipeline = a_pipeline(replica)
        async with aclosing(pipeline.generate(a_request(max_tokens=100, n=3), a_record())) as some:
            async for event in some:
                if isinstance(event, TextDelta):
                    break

    asyncio.run(main())

    assert len(replica.asked) == 3
    assert replica.running == 0
