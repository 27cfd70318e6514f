"""What is described and what is checked agree on tools, formats and what is drawn."""

from __future__ import annotations

import json

import pytest

from server_reference.api import anthropic_messages, openai_chat, openai_responses
from server_reference.api.errors import ApiError
from server_reference.api.openapi_bodies import BODIES

jsonschema_rs = pytest.importorskip("jsonschema_rs")

ORDINARY = {
    "MessageRequest": {
        "model": "tiny",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "Hi"}],
    },
    "ChatCompletionRequest": {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]},
    "ResponseRequest": {"model": "tiny", "input": "Hi"},
}
READERS = {
    "MessageRequest": anthropic_messages.read_request,
    "ChatCompletionRequest": openai_chat.read_request,
    "ResponseRequest": openai_responses.read_request,
}
MESSAGE, CHAT, RESPONSE = ORDINARY
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
NESTED = {"type": "function", "function": {"name": "at", "parameters": CITY}}
FLAT = {"type": "function", "name": "at", "parameters": CITY}
OWN = {"name": "at", "input_schema": CITY}
ASKED = {"role": "user", "content": "Hi"}
CALL = {"id": "1", "type": "function", "function": {"name": "at", "arguments": "{}"}}
USE = {"type": "tool_use", "id": "1", "name": "at", "input": {}}

FITTING = [
    (CHAT, {"tools": [NESTED], "tool_choice": "required", "parallel_tool_calls": False}),
    (CHAT, {"tools": [NESTED], "tool_choice": {"type": "function", "function": {"name": "at"}}}),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "at", "parameters": None}}]}),
    (CHAT, {"response_format": {"type": "json_object"}}),
    (
        CHAT,
        {
            "messages": [
                ASKED,
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "1", "content": "x"},
            ]
        },
    ),
    (CHAT, {"logprobs": True, "top_logprobs": 20, "n": 128, "prompt_logprobs": 0}),
    (CHAT, {"logit_bias": {"7": -100, "8": 0.5}, "stop_token_ids": [0, 7], "min_p": 0.5}),
    (CHAT, {"repetition_penalty": 0.01, "frequency_penalty": -2, "presence_penalty": 2}),
    (RESPONSE, {"include": ["message.output_text.logprobs"], "top_logprobs": 20}),
    (RESPONSE, {"include": ["reasoning.encrypted_content"], "top_logprobs": 0}),
    (RESPONSE, {"tools": [FLAT | {"strict": True}], "tool_choice": "auto"}),
    (RESPONSE, {"tools": [FLAT], "tool_choice": {"type": "function", "name": "at"}}),
    (RESPONSE, {"text": {"format": {"type": "json_schema", "name": "a", "schema": CITY}}}),
    (
        RESPONSE,
        {
            "input": [
                {"type": "function_call", "call_id": "1", "name": "at", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "x"},
            ]
        },
    ),
    (MESSAGE, {"tools": [OWN], "tool_choice": {"type": "tool", "name": "at"}}),
    (MESSAGE, {"tools": [OWN], "tool_choice": {"type": "none"}}),
    (MESSAGE, {"output_config": {"format": {"type": "json_schema", "schema": CITY}}}),
    (
        MESSAGE,
        {
            "messages": [
                ASKED,
                {"role": "assistant", "content": [USE]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]},
            ]
        },
    ),
]

WRONG = [
    (CHAT, {"tools": [FLAT]}),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "a b"}}]}),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "at", "parameters": {}}}]}),
    (CHAT, {"tools": [NESTED], "tool_choice": {"type": "function", "name": "at"}}),
    (CHAT, {"tools": [NESTED], "tool_choice": "any"}),
    (CHAT, {"response_format": {"type": "json_schema"}}),
    (CHAT, {"messages": [ASKED, {"role": "assistant"}]}),
    (CHAT, {"messages": [ASKED, {"role": "tool", "content": "x"}]}),
    (CHAT, {"top_logprobs": 1}),
    (CHAT, {"logprobs": True, "top_logprobs": 21}),
    (CHAT, {"prompt_logprobs": 1, "stream": True}),
    (CHAT, {"logit_bias": {"a": 1}}),
    (CHAT, {"logit_bias": {"1": 101}}),
    (CHAT, {"stop_token_ids": [-1]}),
    (CHAT, {"n": 0}),
    (CHAT, {"repetition_penalty": 0}),
    (RESPONSE, {"tools": [NESTED]}),
    (RESPONSE, {"top_logprobs": 1}),
    (RESPONSE, {"include": ["reasoning.encrypted_content"], "top_logprobs": 1}),
    (RESPONSE, {"include": ["file_search_call.results"]}),
    (RESPONSE, {"tools": [{"type": "web_search"}]}),
    (RESPONSE, {"text": {"format": {"type": "json_schema", "schema": CITY}}}),
    (RESPONSE, {"input": [{"type": "function_call", "call_id": "1", "name": "at"}]}),
    (MESSAGE, {"tools": [{"name": "at"}]}),
    (MESSAGE, {"tools": [OWN], "tool_choice": {"type": "tool"}}),
    (MESSAGE, {"tools": [OWN], "tool_choice": "auto"}),
    (MESSAGE, {"tools": [OWN | {"defer_loading": True}]}),
    (MESSAGE, {"output_format": {"type": "json_object"}}),
    (MESSAGE, {"messages": [{"role": "user", "content": [USE]}]}),
]


def body_of(name, fields):
    body = ORDINARY[name] | fields
    schema = BODIES[name]("tiny")
    return body, jsonschema_rs.validator_for(json.loads(json.dumps(schema))).is_valid(body)


@pytest.mark.parametrize(("name", "fields"), FITTING, ids=str)
def test_what_is_taken_is_described(name, fields):
    body, is_valid = body_of(name, fields)

    READERS[name](json.dumps(body).encode())

    assert is_valid


@pytest.mark.parametrize(("name", "fields"), WRONG, ids=str)
def test_what_is_refused_is_described_as_wrong(name, fields):
    body, is_valid = body_of(name, fields)

    with pytest.raises(ApiError):
        READERS[name](json.dumps(body).encode())

    assert not is_valid
