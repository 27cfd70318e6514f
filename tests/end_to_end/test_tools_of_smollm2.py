"""A real model that may call a tool or not: `auto` in the three formats, whole and streamed.

Its answers are greedy, and each is computed alone and as a whole, so that all say the same.
"""

from __future__ import annotations

import json

import pytest

import server_reference
from server_reference.checkpoints.registry import ModelUnavailableError, front

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

pytestmark = [pytest.mark.sdk, pytest.mark.smollm2]

NAME, ABOUT = "get_weather", "Get the current weather in a city."
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MODEL = {"model": "smollm2", "temperature": 0}

QUESTION = [("user", "What is the capital of France? Answer in one word.")]
"""Which is answered in words."""

EXAMPLES = [
    turn
    for city in ("Paris", "Oslo", "Berlin")
    for turn in (("user", city), ("call", city), ("result", "ok"))
]
REPEATED = [*EXAMPLES, ("user", "Rome")]
"""Which is answered with a call: a model of this size needs to be shown how."""


@pytest.fixture(scope="module")
def server():
    try:
        front("smollm2")
    except ModelUnavailableError as error:
        pytest.skip(str(error))
    options = {"prefix_caching": False, "num_blocks": 64, "max_context": 1024}
    with server_reference.start("smollm2", **options) as running:
        yield running


@pytest.fixture(scope="module")
def chat(server):
    url = f"{server.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0, timeout=300) as client:
        yield client


@pytest.fixture(scope="module")
def claude(server):
    url = server.base_url
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, timeout=300) as client:
        yield client


def of_chat(client, turns, *, stream):
    """Text, calls and why it ended."""
    messages = []
    for at, (kind, text) in enumerate(turns):
        function = {"name": NAME, "arguments": json.dumps({"city": text})}
        calls = [{"id": f"c{at}", "type": "function", "function": function}]
        messages.append(
            {
                "user": {"role": "user", "content": text},
                "call": {"role": "assistant", "content": "", "tool_calls": calls},
                "result": {"role": "tool", "tool_call_id": f"c{at - 1}", "content": text},
            }[kind]
        )
    function = {"name": NAME, "description": ABOUT, "parameters": CITY}
    tools = [{"type": "function", "function": function}]
    asked = {**MODEL, "messages": messages, "tools": tools, "tool_choice": "auto"}
    if not stream:
        (choice,) = client.chat.completions.create(**asked, max_tokens=40).choices
        calls = [one.function for one in choice.message.tool_calls or []]
        told = [(one.name, one.arguments) for one in calls]
        return choice.message.content or "", told, choice.finish_reason
    text, told, reason = "", {}, None
    for chunk in client.chat.completions.create(**asked, max_tokens=40, stream=True):
        (choice,) = chunk.choices
        text, reason = text + (choice.delta.content or ""), choice.finish_reason or reason
        for one in choice.delta.tool_calls or []:
            name, arguments = told.get(one.index, ("", ""))
            more = one.function.name or "", one.function.arguments or ""
            told[one.index] = name + more[0], arguments + more[1]
    return text, list(told.values()), reason


def of_responses(client, turns, *, stream):
    items = []
    for at, (kind, text) in enumerate(turns):
        call = {"type": "function_call", "call_id": f"c{at}", "name": NAME}
        result = {"type": "function_call_output", "call_id": f"c{at - 1}", "output": text}
        call["arguments"] = json.dumps({"city": text})
        items.append(
            {"user": {"role": "user", "content": text}, "call": call, "result": result}[kind]
        )
    tools = [{"type": "function", "name": NAME, "description": ABOUT, "parameters": CITY}]
    asked = {**MODEL, "input": items, "tools": tools, "tool_choice": "auto"}
    if stream:
        *_, last = client.responses.create(**asked, max_output_tokens=40, stream=True)
        response = last.response
    else:
        response = client.responses.create(**asked, max_output_tokens=40)
    calls = [one for one in response.output if one.type == "function_call"]
    told = [(one.name, one.arguments) for one in calls]
    return response.output_text, told, "tool_calls" if told else "stop"


def of_messages(client, turns, *, stream):
    messages = []
    for at, (kind, text) in enumerate(turns):
        use = {"type": "tool_use", "id": f"c{at}", "name": NAME, "input": {"city": text}}
        result = {"type": "tool_result", "tool_use_id": f"c{at - 1}", "content": text}
        role = "assistant" if kind == "call" else "user"
        content = {"user": text, "call": [use], "result": [result]}[kind]
        messages.append({"role": role, "content": content})
    tools = [{"name": NAME, "description": ABOUT, "input_schema": CITY}]
    asked = {"model": "smollm2", "messages": messages, "tools": tools}
    asked |= {"tool_choice": {"type": "auto"}, "extra_body": {"temperature": 0}}
    if stream:
        with client.messages.stream(**asked, max_tokens=40) as told:
            message = told.get_final_message()
    else:
        message = client.messages.create(**asked, max_tokens=40)
    text = "".join(one.text for one in message.content if one.type == "text")
    uses = [one for one in message.content if one.type == "tool_use"]
    reason = {"tool_use": "tool_calls", "end_turn": "stop"}[message.stop_reason]
    return text, [(one.name, json.dumps(one.input)) for one in uses], reason


@pytest.mark.parametrize(
    ("turns", "says", "calls", "reason"),
    [
        pytest.param(QUESTION, "Paris", [], "stop", id="text"),
        pytest.param(REPEATED, "", [(NAME, '{"city": "Rome"}')], "tool_calls", id="call"),
    ],
)
def test_it_answers_or_calls_as_it_likes_and_all_formats_say_the_same(
    chat, claude, turns, says, calls, reason
):
    asked = ((of_chat, chat), (of_responses, chat), (of_messages, claude))

    told = [ask(client, turns, stream=it) for ask, client in asked for it in (False, True)]

    text, called, ended = told[0]
    assert told == [told[0]] * 6
    assert (says in text, called, ended) == (True, calls, reason)
    assert "<tool_call>" not in text
