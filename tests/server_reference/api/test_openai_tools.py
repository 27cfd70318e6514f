"""Tools and structured output of both of OpenAI's formats, which differ in nesting only."""

from __future__ import annotations

import json

import pytest

from server_reference.api import openai_chat, openai_responses
from server_reference.api.chat import Tool, ToolChoice
from server_reference.api.errors import ApiError
from server_reference.api.openai_tools import read_arguments

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}


def flat(kind, **fields):
    return {"type": kind, **fields}


def nested(kind, **fields):
    return {"type": kind, kind: fields}


def chat(**fields):
    turns = [{"role": "user", "content": "Hi"}]
    body = json.dumps({"model": "tiny", "messages": turns} | fields)
    return openai_chat.read_request(body.encode())


def responses(**fields):
    if "response_format" in fields:
        fields["text"] = {"format": fields.pop("response_format")}
    body = json.dumps({"model": "tiny", "input": "Hi"} | fields)
    return openai_responses.read_request(body.encode())


in_both = pytest.mark.parametrize(
    ("read", "of"),
    [pytest.param(chat, nested, id="chat"), pytest.param(responses, flat, id="resp")],
)


@in_both
def test_a_tool_is_read(read, of):
    tool = of("function", name="at", description="Where.", parameters=CITY, strict=True)

    request = read(tools=[tool, of("function", name="now", parameters=None)])

    assert request.tools == (
        Tool(name="at", description="Where.", parameters=CITY, strict=True),
        Tool(name="now", parameters={"type": "object", "properties": {}}),
    )
    assert request.tool_choice == ToolChoice()


@in_both
@pytest.mark.parametrize(
    ("given", "choice"),
    [
        pytest.param("auto", ToolChoice(), id="auto"),
        pytest.param("none", ToolChoice(mode="none"), id="none"),
        pytest.param("required", ToolChoice(mode="required"), id="required"),
        pytest.param(
            ("function", {"name": "a"}),
            ToolChoice(mode="required", names=("a",), parallel=False),
            id="named",
        ),
        pytest.param(
            ("allowed_tools", {"mode": "auto", "tools": ["b"]}),
            ToolChoice(names=("b",)),
            id="allowed",
        ),
        pytest.param(
            ("allowed_tools", {"mode": "required", "tools": ["a", "b"]}),
            ToolChoice(mode="required", names=("a", "b")),
            id="required-of-allowed",
        ),
    ],
)
def test_a_choice_is_read(read, of, given, choice):
    tools = [of("function", name=name) for name in "abc"]
    if isinstance(given, tuple):
        kind, fields = given
        if "tools" in fields:
            fields = fields | {"tools": [of("function", name=name) for name in fields["tools"]]}
        given = of(kind, **fields)

    assert read(tools=tools, tool_choice=given).tool_choice == choice


@in_both
def test_one_call_at_a_time_may_be_asked_for(read, of):
    request = read(tools=[of("function", name="a")], parallel_tool_calls=False)

    assert not request.tool_choice.parallel


@in_both
@pytest.mark.parametrize(
    ("given", "schema"),
    [
        pytest.param({"type": "text"}, None, id="text"),
        pytest.param({"type": "json_object"}, {"type": "object"}, id="object"),
        pytest.param({"schema": CITY, "name": "city", "strict": True}, CITY, id="schema"),
    ],
)
def test_a_format_is_read(read, of, given, schema):
    if "schema" in given:
        given = of("json_schema", **given)

    read_schema = read(response_format=given).output_schema

    assert (read_schema if schema is None else json.loads(read_schema)) == schema


@in_both
@pytest.mark.parametrize(
    ("tool", "why"),
    [
        pytest.param({"name": "a b"}, r"name must be of 1 to 128 letters", id="name"),
        pytest.param({"name": "a\n"}, r"name must be of", id="name-with-a-break"),
        pytest.param({}, r"name is required", id="no-name"),
        pytest.param({"name": "a", "parameters": []}, r"parameters must be an object", id="array"),
        pytest.param(
            {"name": "a", "parameters": {"type": "array"}}, r"parameters must have the", id="type"
        ),
        pytest.param({"name": "a", "stric": True}, r"did you mean strict\?", id="typo"),
    ],
)
def test_a_wrong_tool_is_refused(read, of, tool, why):
    with pytest.raises(ApiError, match=why):
        read(tools=[of("function", **tool)])


@in_both
@pytest.mark.parametrize(
    ("names", "choice", "why"),
    [
        pytest.param("aa", "auto", "tools has two of the name 'a'", id="twice"),
        pytest.param("", "required", "tool_choice needs tools", id="none-to-require"),
        pytest.param("a", "any", "tool_choice must be 'none' or 'auto'", id="others-word"),
        pytest.param(["n" + str(at) for at in range(513)], "auto", "may hold 512", id="many"),
    ],
)
def test_tools_that_do_not_fit_the_choice_are_refused(read, of, names, choice, why):
    with pytest.raises(ApiError, match=why):
        read(tools=[of("function", name=name) for name in names], tool_choice=choice)


@in_both
def test_a_choice_of_an_unknown_tool_is_refused(read, of):
    with pytest.raises(ApiError, match="names 'b', which is none of the tools"):
        read(tools=[of("function", name="a")], tool_choice=of("function", name="b"))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param('{"a": 1}', {"a": 1}, id="object"),
        pytest.param("", {}, id="nothing"),
        pytest.param('{"a": ', '{"a": ', id="cut"),
        pytest.param("[1]", "[1]", id="array"),
        pytest.param("[" * 5000, "[" * 5000, id="deep"),
    ],
)
def test_arguments_that_are_no_object_stay_text(text, arguments):
    assert read_arguments(text) == arguments


CALL = {"id": "c1", "type": "function", "function": {"name": "at", "arguments": '{"city": "Rome"}'}}
READ_CALL = CALL | {"function": {"name": "at", "arguments": {"city": "Rome"}}}


def test_calls_and_results_of_a_chat_are_read():
    request = chat(
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Sun"}]},
        ]
    )

    assert request.messages[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [READ_CALL]},
        {"role": "tool", "tool_call_id": "c1", "name": "at", "content": "Sun"},
    ]


def test_calls_and_results_of_a_response_are_read():
    call = {"type": "function_call", "name": "at", "arguments": '{"city": "Rome"}'}
    request = responses(
        input=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Let me look."},
            call | {"call_id": "c1", "id": "fc_1", "status": "completed"},
            call | {"call_id": "c2"},
            {"type": "function_call_output", "call_id": "c2", "output": "Rain"},
            {"type": "function_call_output", "call_id": "c1", "output": "Sun"},
        ]
    )

    _, assistant, *results = request.messages
    assert assistant["content"] == "Let me look."
    assert assistant["tool_calls"] == [READ_CALL, READ_CALL | {"id": "c2"}]
    assert [(one["tool_call_id"], one["content"]) for one in results] == [
        ("c2", "Rain"),
        ("c1", "Sun"),
    ]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        pytest.param(
            [{"role": "assistant", "tool_calls": [CALL]}], "no result for the call 'c1'", id="open"
        ),
        pytest.param(
            [{"role": "assistant", "tool_calls": [CALL]}, {"role": "user", "content": "?"}],
            "no result for the call 'c1' of 'at'",
            id="passed-over",
        ),
        pytest.param(
            [{"role": "tool", "tool_call_id": "c1", "content": "x"}],
            "result for 'c1', which is no call",
            id="no-call",
        ),
        pytest.param(
            [{"role": "assistant", "tool_calls": [CALL, CALL]}], "two calls of the id 'c1'", id="id"
        ),
    ],
)
def test_a_call_has_its_result_right_after_it(messages, why):
    with pytest.raises(ApiError, match=why):
        chat(messages=[{"role": "user", "content": "Hi"}, *messages])
