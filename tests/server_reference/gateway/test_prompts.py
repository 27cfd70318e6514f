from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from server_reference.api.chat import ChatRequest, Tool, ToolChoice
from server_reference.api.errors import ApiError
from server_reference.checkpoints.registry import front
from server_reference.gateway.prompts import Prompts, with_tools
from server_reference.text.chat_template import ChatTemplate

TINY = front("tiny")
TOOL = Tool(name="weather", description="Of today.", parameters={"type": "object"})
CALLED = [
    {"role": "user", "content": "Rome?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "weather", "arguments": {"a": 1}}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "name": "weather", "content": "Sunny"},
]
OWN = """\
{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}
{% for message in messages %}{{ message.role }}: {{ message.content }}
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>
{% endfor %}{% endfor %}"""
OTHER = OWN.replace("<tool_call>", "[CALL]").replace("</tool_call>", "")


def prompt(template=None, messages=CALLED, **fields):
    model = TINY if template is None else replace(TINY, chat_template=ChatTemplate(template))
    request = ChatRequest(model="tiny", messages=messages, max_tokens=1, **fields)
    ids = asyncio.run(Prompts(model).encode(request))
    return b"".join(map(TINY.tokenizer.token_bytes, ids)).decode()


def test_a_template_that_writes_such_calls_gets_the_tools():
    text = prompt(OWN, tools=(TOOL,))

    assert text.startswith("[weather]")
    assert '<tool_call>{"name": "weather", "arguments": {"a": 1}}</tool_call>' in text
    assert "tool: Sunny" in text


@pytest.mark.parametrize("template", [None, OTHER], ids=["no-tools", "other-calls"])
def test_any_other_gets_them_as_text(template):
    text = prompt(template, tools=(TOOL,))

    assert '<tools>\n{"type": "function", "function": {"name": "weather"' in text
    assert '<tool_call>\n{"name": "weather", "arguments": {"a": 1}}\n</tool_call>' in text
    assert "<tool_response>\nSunny\n</tool_response>" in text
    assert "[weather]" not in text


@pytest.mark.parametrize("template", [None, OWN, OTHER], ids=["tiny", "own", "other"])
def test_tools_that_may_not_be_called_are_left_out(template):
    choice = ToolChoice(mode="none")

    assert prompt(template, tools=(TOOL,), tool_choice=choice) == prompt(template)


def test_a_template_that_calls_itself_is_asked_for_nothing():
    """It would end the server at its start."""
    template = "{% macro f() %}{{ f() }}{% endmacro %}{% if tools %}{{ f() }}{% endif %}x"

    assert prompt(template, tools=(TOOL,)) == "x"


def test_a_system_message_stands_before_the_tools():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]

    system, user = with_tools(messages, [TOOL])

    assert system["content"].startswith("Be brief.\n\nFunctions")
    assert user == messages[1]


def test_text_before_a_call_stays():
    (message,) = with_tools([CALLED[1] | {"content": "Let me look."}], [])

    assert message["content"].startswith("Let me look.\n<tool_call>\n")
    assert set(message) == {"role", "content"}


def test_tools_count_into_what_can_never_fit():
    schema = {"type": "object", "description": "x" * 300_000}
    big = Tool(name="big", parameters=schema)

    with pytest.raises(ApiError, match="300,") as refused:
        prompt(tools=(big,))

    assert refused.value.code == "context_length_exceeded"


def test_what_is_nested_too_deep_is_refused():
    deep: dict = {}
    for _ in range(2000):
        deep = {"a": deep}

    with pytest.raises(ApiError, match="nested too deep"):
        prompt(tools=(Tool(name="deep", parameters={"type": "object", "properties": deep}),))
