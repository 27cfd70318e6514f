from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from llguidance import LLMatcher, LLTokenizer

from server_reference.api.chat import ChatRequest, Tool, ToolChoice
from server_reference.api.errors import ApiError
from server_reference.gateway.grammars import grammar_of, holds_calls

CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = Tool(name="get-weather", parameters=CITY)
TIME = Tool(name="time", parameters={"type": "object", "properties": {}})
STRICT = Tool(name="strict", parameters=CITY, strict=True)
FREE = ToolChoice()
FORCED = ToolChoice(mode="required")
BYTES = LLTokenizer("byte")


def a_request(*tools, choice=FREE, schema=None):
    return ChatRequest(
        model="tiny",
        messages=[],
        max_tokens=1,
        tools=tools,
        tool_choice=choice,
        output_schema=None if schema is None else json.dumps(schema),
    )


def called(name="get-weather", arguments='{"city": "Rome"}'):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def takes(request, text):
    """Whether `text` is a whole output that the request's grammar allows."""
    grammar = grammar_of(request)
    made = {
        "lark": LLMatcher.grammar_from_lark,
        "json_schema": LLMatcher.grammar_from_json_schema,
    }[grammar.kind](grammar.source)
    matcher = LLMatcher(BYTES, made)
    assert not matcher.is_error(), matcher.get_error()
    return matcher.try_consume_tokens(list(text.encode())) == len(text.encode()) and (
        matcher.is_accepting()
    )


@pytest.mark.parametrize(
    ("request_", "text", "is_taken"),
    [
        pytest.param(a_request(WEATHER, choice=FORCED), called(), True, id="forced"),
        pytest.param(a_request(WEATHER, choice=FORCED), "Sunny.", False, id="forced-but-text"),
        pytest.param(
            a_request(WEATHER, choice=FORCED), called(arguments="{}"), False, id="forced-misfit"
        ),
        pytest.param(
            a_request(WEATHER, TIME, choice=FORCED),
            f"{called()}\n{called('time', '{}')}",
            True,
            id="forced-two",
        ),
        pytest.param(
            a_request(WEATHER, choice=ToolChoice(mode="required", parallel=False)),
            f"{called()}\n{called()}",
            False,
            id="forced-one",
        ),
        pytest.param(
            a_request(WEATHER, TIME, choice=ToolChoice(mode="required", names=("time",))),
            called(),
            False,
            id="named-but-another",
        ),
        pytest.param(a_request(WEATHER, STRICT), "Sunny, I <think>.", True, id="strict-text"),
        pytest.param(a_request(STRICT), f"So: {called('strict')} ok", True, id="strict-call"),
        pytest.param(
            a_request(STRICT), called("strict", '{"city": "Paris"}'), False, id="strict-misfit"
        ),
        pytest.param(
            a_request(STRICT, WEATHER), called(arguments='{"x": 1}'), True, id="beside-strict"
        ),
        pytest.param(a_request(STRICT), "<tool_call>x", False, id="strict-broken"),
        pytest.param(a_request(schema=CITY), '{"city": "Oslo"}', True, id="schema"),
        pytest.param(a_request(schema=CITY), '{"city": "Paris"}', False, id="schema-misfit"),
        pytest.param(a_request(WEATHER, schema=CITY), '{"city": "Oslo"}', True, id="answer"),
        pytest.param(a_request(WEATHER, schema=CITY), '{  "city": "Oslo"}', False, id="blanks"),
        pytest.param(a_request(WEATHER, schema=CITY), called(), True, id="call-not-answer"),
        pytest.param(a_request(WEATHER, schema=CITY), "Sunny.", False, id="neither"),
    ],
)
def test_an_output_is_held_to_what_was_asked(request_, text, is_taken):
    assert takes(request_, text) is is_taken


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(a_request(), id="plain"),
        pytest.param(a_request(WEATHER), id="free"),
        pytest.param(a_request(STRICT, choice=ToolChoice(mode="none")), id="none"),
        pytest.param(a_request(STRICT, TIME, choice=ToolChoice(names=("time",))), id="not-allowed"),
    ],
)
def test_where_nothing_is_prescribed_there_is_no_grammar(request_):
    assert grammar_of(request_) is None
    assert not holds_calls(request_)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("strict", [0, 1])
def test_many_tools_make_one_grammar(parallel, strict):
    """Each one was two rules of it, of 500 that it may have."""
    tools = [Tool(name=f"t{at}", parameters=CITY) for at in range(500)]
    tools[0] = replace(tools[0], strict=bool(strict))
    choice = ToolChoice(mode="auto" if strict else "required", parallel=parallel)
    request = a_request(*tools, choice=choice)

    assert grammar_of(request).source.count("\n") < 10
    assert takes(request, called("t499"))
    assert takes(request, called("t499", "{}")) is bool(strict)


def test_words_for_readers_are_left_out_and_values_kept():
    words = {"description": "d" * 9000, "title": "t", "$comment": "c"}
    tool = Tool(
        name="note",
        parameters={
            "type": "object",
            "properties": {
                "title": {"type": "string", **words},
                "description": {"const": {"title": "Rome"}, **words},
            },
            "required": ["title", "description"],
            **words,
        },
    )
    request = a_request(tool, choice=FORCED)

    assert len(grammar_of(request).source) < 1000
    arguments = '{"title": "a", "description": {"title": "Rome"}}'
    assert takes(request, called("note", arguments))
    assert not takes(request, called("note", '{"title": "a", "description": {}}'))


@pytest.mark.parametrize(
    ("schema", "arguments", "is_taken"),
    [
        ({"type": "object"}, '{"a": 1}', True),
        ({"type": "object", "properties": {}, "required": []}, '{"a": 1}', True),
        ({"type": "object", "properties": {}, "additionalProperties": False}, '{"a": 1}', False),
        ({"type": "object", "maxProperties": 0}, '{"a": 1}', False),
    ],
)
def test_what_asks_for_nothing_takes_anything(schema, arguments, is_taken):
    request = a_request(Tool(name="at", parameters=schema), choice=FORCED)

    assert takes(request, called("at", arguments)) is is_taken


def test_more_tools_than_a_grammar_holds_are_refused_with_the_number_that_fits():
    tools = [Tool(name=f"t{at:03}", parameters=CITY) for at in range(900)]

    with pytest.raises(ApiError) as raised:
        grammar_of(a_request(*tools, choice=FORCED))

    said = re.search(r"these 900 tools .* no more than the first (\d+) tools", raised.value.message)
    fitting = int(said.group(1))
    assert (raised.value.kind, raised.value.param) == ("invalid", "tools")
    assert len(grammar_of(a_request(*tools[:fitting], choice=FORCED)).source) <= 131_072
    with pytest.raises(ApiError, match=f"the first {fitting} tools"):
        grammar_of(a_request(*tools[: fitting + 1], choice=FORCED))


def test_a_tool_that_is_named_among_many_is_all_that_counts():
    tools = [Tool(name=f"t{at}", parameters=CITY) for at in range(2000)]
    named = ToolChoice(mode="required", names=("t1999",))

    assert takes(a_request(*tools, choice=named), called("t1999"))


def test_a_reference_inside_of_a_schema_holds():
    place = {"$ref": "#/$defs/place", "$defs": {"place": CITY}, "type": "object"}
    tool = Tool(name="at", parameters=place)

    assert takes(a_request(tool, choice=FORCED), called("at"))
    assert not takes(a_request(tool, choice=FORCED), called("at", '{"city": "Paris"}'))
