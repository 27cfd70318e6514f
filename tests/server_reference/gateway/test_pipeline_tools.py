"""Tools, log-probabilities, deadlines and schemas on their way through the pipeline."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from server_reference.api.app import create_app
from server_reference.api.chat import Tool, ToolChoice
from server_reference.api.events import (
    ArgumentsDelta,
    Finished,
    Logprob,
    Started,
    TextDelta,
    ToolCallFinished,
)
from server_reference.core import TokenLogprob
from tests.server_reference.asgi import Client
from tests.server_reference.gateway.pipelines import (
    TINY,
    a_pipeline,
    a_record,
    a_request,
    run,
)

CITY = {"type": "object", "properties": {"city": {"enum": ["Rome"]}}}
AT = Tool(name="at", parameters=CITY)
CALLED = ["Look. <tool", '_call>{"name": "at", "argum', 'ents": {"city": "Rome"}}', "</tool_call>"]


def test_a_call_in_the_text_is_a_call(replica):
    replica.says, replica.ends_with = [CALLED], {"finish_reason": "stop"}

    _, text, call, arguments, finished_call, finished = run(
        a_pipeline(replica), a_request(tools=(AT,))
    )

    assert (text, arguments) == (TextDelta("Look."), ArgumentsDelta('{"city": "Rome"}'))
    assert (call.name, finished_call) == ("at", ToolCallFinished())
    assert finished == Finished("tool_calls", 4)
    assert replica.asked[0].params.grammar is None


@pytest.mark.parametrize(
    ("says", "ends_with", "reason"),
    [
        pytest.param(CALLED, "length", "length", id="cut-after-a-call"),
        pytest.param(["Look."], "stop", "stop", id="no-call"),
        pytest.param(CALLED[:3], "stop", "tool_calls", id="without-its-mark"),
        pytest.param(CALLED[:2], "stop", "stop", id="unfinished"),
    ],
)
def test_calls_are_the_reason_only_when_one_was_sent(replica, says, ends_with, reason):
    replica.says, replica.ends_with = [says], {"finish_reason": ends_with}

    *_, finished = run(a_pipeline(replica), a_request(max_tokens=9, tools=(AT,)))

    assert finished.reason == reason


def test_tools_that_may_not_be_called_are_not_looked_for(replica):
    replica.says, replica.ends_with = [CALLED], {"finish_reason": "stop"}

    events = run(a_pipeline(replica), a_request(tools=(AT,), tool_choice=ToolChoice(mode="none")))

    assert {type(event) for event in events} == {Started, TextDelta, Finished}


def test_a_forced_call_is_held_to_its_form_and_told_as_it_comes(replica):
    replica.says = [
        ['<tool_call>\n{"name": "at", "arguments": {"ci', 'ty": "Rome"}}\n</tool_call>']
    ]
    replica.ends_with = {"finish_reason": "stop"}
    choice = ToolChoice(mode="required", names=("at",), parallel=False)

    _, _, first, rest, _, finished = run(
        a_pipeline(replica), a_request(tools=(AT,), tool_choice=choice)
    )

    assert (first, rest) == (ArgumentsDelta('{"ci'), ArgumentsDelta('ty": "Rome"}'))
    assert finished.reason == "tool_calls"
    assert replica.asked[0].params.grammar.kind == "lark"


@pytest.mark.parametrize(
    ("stop", "reason", "told"),
    [
        pytest.param((), "tool_calls", None, id="not-the-callers"),
        pytest.param(("</tool_call>",), "stop_sequence", "</tool_call>", id="the-callers"),
    ],
)
def test_the_output_ends_with_the_one_call_that_is_allowed(replica, stop, reason, told):
    replica.says = [[*CALLED[:3], ""]]
    replica.ends_with = {"finish_reason": "stop_sequence", "stop_sequence": "</tool_call>"}
    choice = ToolChoice(parallel=False)

    *_, finished = run(a_pipeline(replica), a_request(tools=(AT,), tool_choice=choice, stop=stop))

    assert (finished.reason, finished.stop_sequence) == (reason, told)
    assert replica.asked[0].params.stop == (*stop, "</tool_call>")


def test_log_probabilities_come_with_the_next_text(replica):
    """Text may be held back; what was drawn is told all the same."""
    replica.says, replica.told = [["", "a", ""]], [TokenLogprob(token_id=65, logprob=-1.0)]

    _, first, last, _ = run(a_pipeline(replica), a_request(logprobs=0))

    known = Logprob(65, b"A", -1.0)
    assert first == TextDelta("a", 0, (known, known))
    assert last == TextDelta("", 0, (known,))
    assert replica.asked[0].params.logprobs == 0


def test_log_probabilities_are_told_apart_for_a_call_and_the_text_after_it(replica):
    call = '<tool_call>{"name": "at", "arguments": {}}'
    replica.says = [["Look. ", call[:20], call[20:], "</tool", "_call>", "\nb", ""]]
    replica.told = [TokenLogprob(token_id=65, logprob=-1.0)]

    events = run(a_pipeline(replica), a_request(tools=(AT,), logprobs=0))

    texts = [event for event in events if isinstance(event, TextDelta)]
    assert [(one.text, len(one.logprobs), one.num_of_calls) for one in texts] == [
        ("Look.", 1, 0),
        ("\nb", 5, 4),
        ("", 1, 0),
    ]


ASKED = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
SCHEMA = {"type": "object", "properties": {f"a{at}": {"type": "string"} for at in range(10)}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "fields", "a_tool"),
    [
        pytest.param(
            "/v1/messages",
            ASKED | {"max_tokens": 9, "tool_choice": {"type": "any"}},
            lambda name: {"name": name, "input_schema": SCHEMA},
            id="messages",
        ),
        pytest.param(
            "/v1/chat/completions",
            ASKED | {"tool_choice": "required"},
            lambda name: {"type": "function", "function": {"name": name, "parameters": SCHEMA}},
            id="chat",
        ),
        pytest.param(
            "/v1/responses",
            {"model": "tiny", "input": "Hello", "tool_choice": "required"},
            lambda name: {"type": "function", "name": name, "parameters": SCHEMA},
            id="responses",
        ),
    ],
)
def test_more_forced_tools_than_fit_are_refused_in_each_apis_words(
    replica, path, fields, a_tool, stream
):
    replica.capacity = 10**6
    pipeline = a_pipeline(replica, model=replace(TINY, max_context=10**6))
    body = fields | {"stream": stream, "tools": [a_tool(f"t{at}") for at in range(512)]}

    async def main():
        state = {"body": json.dumps(body).encode(), "record": a_record()}
        return await Client(create_app(pipeline)).request("POST", path, state=state)

    reply = asyncio.run(main())
    error = reply.json()["error"]

    assert (reply.status, error["type"]) == (400, "invalid_request_error")
    assert "give no more than the first" in error["message"]
    assert error.get("param", "tools") == "tools"
    assert replica.asked == []


@pytest.mark.parametrize(
    ("deadline", "left"), [(None, None), (100.0, 100.0)], ids=["for-ever", "a-while"]
)
def test_the_engine_learns_how_long_the_client_waits(replica, deadline, left):
    record = a_record()
    record.deadline = deadline

    run(a_pipeline(replica), a_request(), record)

    assert replica.asked[0].deadline == (left and pytest.approx(left, abs=5))


def test_a_client_that_has_given_up_costs_nothing(replica):
    record = a_record()
    record.deadline = 1e-9

    (failed,) = run(a_pipeline(replica), a_request(), record)

    assert failed.error.kind == record.outcome == "deadline"
    assert failed.error.status("anthropic") == failed.error.status("openai") == 504
    assert replica.asked == []


def test_a_schema_that_cannot_be_used_is_named_with_its_field(replica):
    replica.ends_with = {"finish_reason": "invalid", "error": "a bad schema"}
    request = a_request(max_tokens=1, output_schema='{"type": "x"}', output_field="text.format")

    *_, failed = run(a_pipeline(replica), request)

    assert (failed.error.kind, failed.error.param) == ("invalid", "text.format")
    assert failed.error.message == "a bad schema"


def test_who_waited_too_long_is_told_so_and_not_that_the_queue_is_full(replica):
    replica.ends_with = {"finish_reason": "refused", "error": "no place within 5 s"}

    *_, failed = run(a_pipeline(replica), a_request(max_tokens=1))

    assert failed.error.kind == "rate_limited"
    assert failed.error.message == "no place within 5 s; send this one again in 1 s or later"


def test_the_refused_learn_how_long_the_prompts_before_them_take(replica):
    pipeline = a_pipeline(replica)
    replica.num_queued_tokens = 100
    run(pipeline, a_request())  # waits half a second behind them

    replica.num_queued_tokens, replica.ends_with = 2000, {"finish_reason": "refused"}
    *_, failed = run(pipeline, a_request(max_tokens=1))

    assert failed.error.retry_after == 10
