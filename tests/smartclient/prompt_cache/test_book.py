"""What is learned about all the lanes of one caller and model."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache.book import Book, outline_of, rules_of


def test_a_conversation_that_always_went_on_is_expected_to_go_on_at_any_length():
    book = Book(None)

    chances = [book.reach(turn) for turn in range(100)]

    assert min(chances[1:]) > 0.8
    assert chances[-1] > chances[1]


def test_conversations_that_end_at_a_turn_are_expected_to_end_there():
    book = Book(None)
    for _ in range(20):
        for turn in range(3):
            ends = book.reach(turn)

    assert ends < 0.2
    assert book.reach(1) > 0.8


def turn(role, content):
    return {"role": role, "content": content}


RULES = [turn("developer", "Now it is 10:17. Be kind."), turn("user", "Hello")]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"system": "Be kind.", "messages": [turn("user", "Hello")]}, id="text"),
        pytest.param({"messages": [turn("user", [{"type": "text", "text": "Hello"}])]}, id="block"),
        pytest.param({"messages": RULES}, id="behind-the-developer"),
        pytest.param({"input": "Hello"}, id="input"),
    ],
)
def test_a_conversation_is_known_by_the_first_that_is_said_in_it(payload):
    assert outline_of(payload) == "Hello"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"system": "Now it is 10:18. Be kind."}, id="text"),
        pytest.param({"system": [{"type": "text", "text": "Be kind."}]}, id="block"),
        pytest.param(
            {"instructions": "It is 10:19. Be kind.", "input": "Hello"}, id="instructions"
        ),
        pytest.param({"messages": RULES}, id="developer"),
    ],
)
def test_a_system_prompt_is_known_by_its_end(payload):
    end = rules_of(payload)[1]

    assert end.endswith("Be kind.")
    assert rules_of({"system": "x" * 500 + end * 50}) == rules_of({"system": end * 50})


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"messages": []},
        {"messages": 7, "system": 8},
        {"messages": [turn("user", None)], "system": []},
        {"messages": [turn("developer", [7])], "system": [None]},
        {"input": [None, 7]},
    ],
)
def test_what_has_no_text_is_known_by_none(payload):
    assert (outline_of(payload), rules_of(payload)) == (None, None)
