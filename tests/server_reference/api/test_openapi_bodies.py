from __future__ import annotations

import pytest

from server_reference.api import anthropic_messages, openai_chat, openai_responses
from server_reference.api.fields import LONGEST_STOP, MOST_STOPS
from server_reference.api.openapi_bodies import BODIES, object_of

READERS = [
    pytest.param("MessageRequest", anthropic_messages, id="messages"),
    pytest.param("TokenCountRequest", anthropic_messages, id="count"),
    pytest.param("ChatCompletionRequest", openai_chat, id="chat"),
    pytest.param("ResponseRequest", openai_responses, id="responses"),
]


def fields_of(name):
    return BODIES[name]("tiny")["properties"]


@pytest.mark.parametrize(("name", "reader"), READERS)
def test_every_field_that_is_read_is_described_and_no_other(name, reader):
    known = {*reader._KNOWN, *reader.NOT_IMPLEMENTED}

    assert set(fields_of(name)) == known
    assert BODIES[name]("tiny")["additionalProperties"] is False


@pytest.mark.parametrize(("name", "reader"), READERS)
def test_numbers_have_the_bounds_that_are_checked(name, reader):
    described = {
        field: (schema.get("minimum"), schema.get("maximum"))
        for field, schema in fields_of(name).items()
        if "minimum" in schema
    }

    assert described == {field: (one.minimum, one.maximum) for field, one in reader.BOUNDS.items()}


@pytest.mark.parametrize(("name", "reader"), READERS)
def test_what_is_not_implemented_may_only_be_neutral(name, reader):
    described = {field: fields_of(name)[field]["enum"] for field in reader.NOT_IMPLEMENTED}

    assert described == {field: [*values, None] for field, values in reader.NOT_IMPLEMENTED.items()}


def test_what_is_ignored_may_be_anything():
    assert {str(fields_of("MessageRequest")[one]) for one in anthropic_messages.IGNORED} == {"{}"}


def test_only_the_served_model_is_known():
    assert BODIES["ResponseRequest"]("other")["properties"]["model"] == {"const": "other"}


def test_a_count_needs_no_limit():
    assert "max_tokens" in BODIES["MessageRequest"]("tiny")["required"]
    assert "max_tokens" not in BODIES["TokenCountRequest"]("tiny")["required"]


def test_stop_strings_have_the_limits_that_are_checked():
    stops = fields_of("MessageRequest")["stop_sequences"]

    assert (stops["maxItems"], stops["items"]["maxLength"]) == (MOST_STOPS, LONGEST_STOP)


def test_an_open_object_says_nothing_of_other_fields():
    assert object_of({"a": {}}) == {"type": "object", "properties": {"a": {}}}
