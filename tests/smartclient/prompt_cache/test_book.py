"""What is learned about all the lanes of one caller and model."""

from __future__ import annotations

from smartclient.prompt_cache.book import Book


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
