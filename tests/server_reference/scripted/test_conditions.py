from __future__ import annotations

import dataclasses

import pytest

from server_reference.scripted.conditions import CONDITIONS, conditions_of, describe
from tests.server_reference.scripted.received import a_request

REQUEST = dataclasses.replace(
    a_request(
        model="claude-tiny",
        system="You are brief.",
        user="What is the weather in Oslo?",
        stream=True,
        headers=[("x-team", "blue"), ("x-api-key", "sk-secret")],
        attempt=2,
    ),
    connection=3,
)

MET = [
    {"path": "/v1/messages"},
    {"path": "*/messages"},
    {"api": "anthropic.*"},
    {"model": "claude-tiny"},
    {"model": "claude-*"},
    {"system": "brief"},
    {"user": "weather"},
    {"matches": r"in \w+\?$"},
    {"tool_result": False},
    {"turn": 1},
    {"header": {"X-Team": "bl*"}},
    {"header": {"x-other": None}},
    {"connection": 3},
    {"connection": [1, 3]},
    {"attempt": 2},
    {"stream": True},
    {"when": lambda received: received.model == "claude-tiny"},
]

UNMET = [
    ({"path": "/v1/responses"}, "path is '/v1/messages', not '/v1/responses'"),
    ({"model": "gpt-*"}, "model is 'claude-tiny', not 'gpt-*'"),
    ({"system": "long"}, "system 'You are brief.' does not hold 'long'"),
    ({"user": "time"}, "user 'What is the weather in Oslo?' does not hold 'time'"),
    ({"matches": "^time"}, "user 'What is the weather in Oslo?' does not match '^time'"),
    ({"tool_result": True}, "tool_result is False"),
    ({"turn": 2}, "turn is 1, not 2"),
    ({"header": {"x-team": "red"}}, "header 'x-team' has another value"),
    ({"header": {"x-team": None}}, "header 'x-team' is there"),
    ({"header": {"x-other": "*"}}, "header 'x-other' is not there"),
    ({"connection": [1, 2]}, "connection is 3, not [1, 2]"),
    ({"attempt": 1}, "attempt is 2, not 1"),
    ({"stream": False}, "stream is True"),
]


@pytest.mark.parametrize("given", MET, ids=lambda given: str(given).partition(" at 0x")[0])
def test_a_condition_is_met(given):
    (condition,) = conditions_of(given)

    assert condition(REQUEST) is None


@pytest.mark.parametrize(("given", "why"), UNMET, ids=lambda value: str(value)[:30])
def test_a_condition_says_why_it_is_not_met(given, why):
    (condition,) = conditions_of(given)

    assert condition(REQUEST) == why


def test_every_condition_is_tried_here():
    assert {name for given in MET for name in given} == CONDITIONS


def test_a_long_text_is_cut_short():
    (condition,) = conditions_of({"user": "x"})

    assert len(condition(a_request(user="y" * 10_000))) < 100


def test_a_header_s_value_is_never_shown():
    given = {"header": {"x-api-key": "sk-other"}}
    (condition,) = conditions_of(given)

    assert "sk-" not in condition(REQUEST) + describe(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"modle": "x"}, "did you mean 'model'"),
        ({"matches": "("}, "is no regular expression"),
        ({"turn": 0}, "turn counts from 1"),
        ({"attempt": []}, "attempt counts from 1"),
        ({"connection": "1"}, "connection must be int, not str"),
        ({"model": 5}, "model must be str, not int"),
        ({"stream": "yes"}, "stream must be bool, not str"),
        ({"header": "x"}, "header must be Mapping, not str"),
    ],
)
def test_a_condition_that_can_never_be_met_fails_when_it_is_defined(given, said):
    with pytest.raises(ValueError, match=said):
        conditions_of(given)
