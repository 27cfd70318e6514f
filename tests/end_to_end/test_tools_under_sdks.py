"""Tools and what comes with them under the official SDKs: the real server, `tiny`'s real engine.

The weights are random, so that what fits a schema fits because the engine holds it to that.
"""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

import server_reference
from server_reference.core import Sequence
from tests.end_to_end.raw_http import until
from tests.end_to_end.tiny_calls import ANN, LONG, is_idle

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

pytestmark = pytest.mark.sdk
needs_deadlines = pytest.mark.skipif(
    "expires_at" not in {one.name for one in fields(Sequence)},
    reason="the engine ends no sequence at its deadline yet",
)

CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"enum": [1, 2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
NESTED = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
FLAT = {"type": "function", "name": "weather", "parameters": CITY, "strict": True}
TOOL = {"name": "weather", "input_schema": CITY}
ASKED = [{"role": "user", "content": "How is the weather in Rome?"}]


@pytest.fixture(scope="module")
def server():
    with server_reference.start("tiny", api_keys={ANN: "ann"}) as running:
        yield running


@pytest.fixture
def chat(server):
    with openai.OpenAI(base_url=f"{server.base_url}/v1", api_key=ANN, max_retries=0) as client:
        yield client


@pytest.fixture
def claude(server):
    with anthropic.Anthropic(base_url=server.base_url, api_key=ANN, max_retries=0) as client:
        yield client


def fits(arguments):
    return arguments["city"] in ("Oslo", "Rome") and arguments["days"] in (1, 2)


def forced(chat, **fields):
    return chat.chat.completions.create(
        model="tiny",
        messages=ASKED,
        tools=[NESTED],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_tokens=200,
        **fields,
    )


# Forced calls.


def test_a_forced_call_of_a_chat_fits_and_its_result_is_taken(chat):
    (choice,) = forced(chat).choices

    (call,) = choice.message.tool_calls
    assert fits(json.loads(call.function.arguments))
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)

    result = {"role": "tool", "tool_call_id": call.id, "content": "Sunny"}
    after = chat.chat.completions.create(
        model="tiny", messages=[*ASKED, choice.message, result], tools=[NESTED], max_tokens=4
    )
    assert after.usage.completion_tokens > 0


def test_a_streamed_call_of_a_chat_is_the_whole_one(chat):
    whole = forced(chat, temperature=0).choices[0].message.tool_calls[0].function

    name, arguments, reasons = "", "", []
    for chunk in forced(chat, temperature=0, stream=True):
        (choice,) = chunk.choices
        for call in choice.delta.tool_calls or []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
        reasons.append(choice.finish_reason)

    assert (name, arguments) == (whole.name, whole.arguments)
    assert reasons[-1] == "tool_calls"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_a_forced_call_of_a_message_fits_and_its_result_is_taken(claude, streams):
    asked = {
        "model": "tiny",
        "max_tokens": 200,
        "messages": ASKED,
        "tools": [TOOL],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    }
    if streams:
        with claude.messages.stream(**asked) as stream:
            message = stream.get_final_message()
    else:
        message = claude.messages.create(**asked)

    (block,) = message.content
    assert fits(block.input)
    assert (message.stop_reason, message.stop_sequence) == ("tool_use", None)

    result = {"type": "tool_result", "tool_use_id": block.id, "content": "Sunny"}
    turns = [
        *ASKED,
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [result]},
    ]
    after = claude.messages.create(model="tiny", max_tokens=4, messages=turns, tools=[TOOL])
    assert after.usage.output_tokens > 0


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_a_forced_call_of_a_response_fits_and_its_output_is_taken(chat, streams):
    asked = {
        "model": "tiny",
        "max_output_tokens": 200,
        "input": ASKED,
        "tools": [FLAT],
        "tool_choice": {"type": "function", "name": "weather"},
    }
    if streams:
        with chat.responses.stream(**asked) as stream:
            response = stream.get_final_response()
    else:
        response = chat.responses.create(**asked)

    (call,) = response.output
    assert (call.type, response.status) == ("function_call", "completed")
    assert fits(json.loads(call.arguments))

    output = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"}
    given = {"type": "function_call", "call_id": call.call_id}
    given |= {"name": call.name, "arguments": call.arguments}
    after = chat.responses.create(
        model="tiny", max_output_tokens=4, input=[*ASKED, given, output], tools=[FLAT]
    )
    assert after.usage.output_tokens > 0


def test_a_cut_call_is_no_reason_for_tool_calls(chat):
    (choice,) = chat.chat.completions.create(
        model="tiny", messages=ASKED, tools=[NESTED], tool_choice="required", max_tokens=45
    ).choices

    assert choice.finish_reason == "length"
    assert choice.message.tool_calls or "<tool_call>" in choice.message.content


# Structured output.


def test_an_answer_fits_its_schema_in_every_format(chat, claude):
    schema = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    completion = chat.chat.completions.create(
        model="tiny", messages=ASKED, max_tokens=200, response_format=schema
    )
    response = chat.responses.create(
        model="tiny",
        input=ASKED,
        max_output_tokens=200,
        text={"format": {"type": "json_schema", "name": "city", "schema": CITY}},
    )
    message = claude.messages.create(
        model="tiny",
        messages=ASKED,
        max_tokens=200,
        output_config={"format": {"type": "json_schema", "schema": CITY}},
    )

    assert fits(json.loads(completion.choices[0].message.content))
    assert fits(json.loads(response.output_text))
    assert fits(json.loads(message.content[0].text))


BAD = {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}


def test_a_schema_that_cannot_be_used_is_a_bad_request_in_every_format(chat, claude):
    with pytest.raises(openai.BadRequestError) as completion:
        chat.chat.completions.create(
            model="tiny",
            messages=ASKED,
            response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": BAD}},
        )
    with pytest.raises(openai.BadRequestError) as response:
        chat.responses.create(
            model="tiny",
            input=ASKED,
            tools=[FLAT | {"parameters": BAD}],
            tool_choice="required",
            stream=True,
        )
    with pytest.raises(anthropic.BadRequestError) as message:
        claude.messages.create(
            model="tiny",
            max_tokens=9,
            messages=ASKED,
            output_config={"format": {"type": "json_schema", "schema": BAD}},
        )

    assert completion.value.param == "response_format"
    assert response.value.param == "tools"
    assert message.value.body["error"]["type"] == "invalid_request_error"


# Several answers, log-probabilities, what is drawn.


def test_several_answers_end_each_for_itself_and_are_counted_together(chat):
    whole = chat.chat.completions.create(
        model="tiny", messages=ASKED, n=3, seed=5, max_tokens=8, temperature=1.5
    )
    texts = ["", "", ""]
    for chunk in chat.chat.completions.create(
        model="tiny", messages=ASKED, n=3, seed=5, max_tokens=8, temperature=1.5, stream=True
    ):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""

    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in whole.choices}) == 3
    assert whole.usage.completion_tokens <= 24
    assert len(set(texts)) == 3


def test_leaving_aborts_every_answer(chat, server):
    stream = chat.chat.completions.create(model="tiny", messages=ASKED, n=4, stream=True, **LONG)
    with stream:
        next(iter(stream))

    until(lambda: is_idle(server))


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_log_probabilities_are_those_of_the_text(chat, streams):
    asked = {
        "model": "tiny",
        "messages": ASKED,
        "max_tokens": 6,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 2,
    }
    if streams:
        content, text = [], ""
        for chunk in chat.chat.completions.create(**asked, stream=True):
            (choice,) = chunk.choices
            content += choice.logprobs.content if choice.logprobs else []
            text += choice.delta.content or ""
    else:
        (choice,) = chat.chat.completions.create(**asked).choices
        content, text = choice.logprobs.content, choice.message.content

    assert b"".join(bytes(one.bytes) for one in content).decode("utf-8", "replace") == text
    for one in content:
        assert len(one.top_logprobs) == 2
        assert one.logprob == pytest.approx(one.top_logprobs[0].logprob, abs=1e-5)  # greedy


def test_log_probabilities_of_a_response_are_those_of_its_text(chat):
    asked = {"model": "tiny", "input": ASKED, "max_output_tokens": 6, "temperature": 0}
    asked |= {"include": ["message.output_text.logprobs"], "top_logprobs": 2}

    *events, last = chat.responses.create(**asked, stream=True)
    (part,) = chat.responses.create(**asked).output[0].content

    assert b"".join(bytes(one.bytes) for one in part.logprobs).decode() == part.text
    assert part == last.response.output[0].content[0]
    deltas = [one for one in events if one.type == "response.output_text.delta"]
    told = [one for delta in deltas for one in delta.logprobs]
    assert [(one.token, one.logprob) for one in told] == [
        (one.token, one.logprob) for one in part.logprobs
    ]
    for one in [*told, *part.logprobs]:
        assert len(one.top_logprobs) == 2
        assert one.logprob == pytest.approx(one.top_logprobs[0].logprob, abs=1e-5)  # greedy


def test_a_bias_is_the_callers(chat):
    (choice,) = chat.chat.completions.create(
        model="tiny", messages=ASKED, max_tokens=4, logit_bias={str(ord("z")): 100}
    ).choices

    assert choice.message.content == "zzzz"


def test_fields_that_openai_does_not_have_are_taken(chat):
    completion = chat.chat.completions.create(
        model="tiny",
        messages=ASKED,
        max_tokens=8,
        extra_body={
            "min_tokens": 8,
            "ignore_eos": True,
            "top_k": 50,
            "min_p": 0.01,
            "repetition_penalty": 1.1,
            "prompt_logprobs": 1,
        },
    )

    nothing, *others = completion.prompt_logprobs
    assert completion.usage.completion_tokens == 8
    assert nothing is None
    assert len(others) == completion.usage.prompt_tokens - 1


# Time.


@needs_deadlines
def test_a_client_that_gives_up_sees_it_as_its_sdk_says(chat, claude):
    text = {"type": "string", "minLength": 2500}
    endless = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    format = {"type": "json_schema", "json_schema": {"name": "endless", "schema": endless}}
    asked = {
        "model": "tiny",
        "messages": ASKED,
        "max_tokens": 3000,
        "extra_headers": {"x-envoy-expected-rq-timeout-ms": "100"},
    }

    with pytest.raises(openai.APIStatusError) as completion:
        chat.chat.completions.create(**asked, response_format=format)
    with pytest.raises(anthropic.APIStatusError) as message:
        config = {"format": {"type": "json_schema", "schema": endless}}
        claude.messages.create(**asked, output_config=config)

    assert completion.value.status_code == message.value.status_code == 504
    assert completion.value.code == "deadline_exceeded"
    assert message.value.body["error"]["type"] == "timeout_error"


@needs_deadlines
def test_a_stream_that_outlives_its_client_ends_with_an_error_event(chat):
    asked = {"model": "tiny", "messages": ASKED, "max_tokens": 3000, "stream": True}
    late = {"x-envoy-expected-rq-timeout-ms": "1500"}
    endless = {"ignore_eos": True}

    with pytest.raises(openai.APIError, match="the client waits no longer") as failed:
        for chunk in chat.chat.completions.create(**asked, extra_headers=late, extra_body=endless):
            assert chunk.object == "chat.completion.chunk"

    assert failed.value.code == "deadline_exceeded"
