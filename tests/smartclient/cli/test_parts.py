"""Which part of a request costs what."""

from __future__ import annotations

from functools import partial

import pytest

from smartclient.cli.parts import parts_of
from smartclient.tokens import count
from tests.smartclient.cli.written import ASKED, FUNCTIONS, TOOLS, a_chat, a_claude, a_response

LONG = "You are a patient teacher. " * 50
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("body", "endpoint", "names"),
    [
        pytest.param(
            a_claude(system=LONG, tools=TOOLS), "anthropic.messages", "tools system", id="messages"
        ),
        pytest.param(
            a_chat(
                messages=[{"role": "developer", "content": LONG}, *ASKED],
                tools=FUNCTIONS,
                response_format=SCHEMA,
            ),
            "openai.chat",
            "tools system schema",
            id="chat",
        ),
        pytest.param(a_response(instructions=LONG), "openai.responses", "system", id="responses"),
        pytest.param(a_chat(), "openai.chat", "", id="messages-alone"),
    ],
)
def test_parts_add_up_to_the_whole(body, endpoint, names):
    counting = partial(count, model=body["model"], endpoint=endpoint)

    parts = parts_of(body, endpoint, counting)

    assert list(parts) == [*names.split(), "messages"]
    assert sum(parts.values()) == counting(body).p50
    assert min(parts.values()) > 0
    assert names == "" or parts["system"] > 200


def test_a_text_has_one_part():
    assert parts_of("Hello there", "text", partial(count, model="gpt-5.1")) == {"messages": 2}


def test_nothing_has_no_part():
    assert parts_of("", "text", partial(count, model="gpt-5.1")) == {}
