"""How pieces become passages."""

from __future__ import annotations

from smartclient import catalog
from smartclient.tokens.repetition_rows import Piece, Text, rows, shortest_ttl


def a_piece(**given):
    given = {"num_texts": 3, "is_shared": True, "num_sent": 3, "next": "", "last": "", **given}
    return Piece("message", "messages[0].content", "Be kind.", 30, 1, **given)


def passages(pieces, /, **texts):
    known = {("gpt-4o", "text"): Text("message", "p", "", 50, 1, num_sent=1, **texts)}
    found, _ = rows(
        known, {("gpt-4o", name): piece for name, piece in pieces.items()},
        period=None, has_times=False, min_tokens=1, catalog=catalog.builtin(),
    )  # fmt: skip
    return [(one.digest, one.tokens, one.num_sent) for one in found]


def test_pieces_that_follow_each_other_are_one_passage():
    assert passages({"a": a_piece(next="b"), "b": a_piece(last="a")}) == [("a", 60, 3)]


def test_pieces_that_part_are_two():
    """What follows one of them is not always the other."""
    pieces = {"a": a_piece(next="b"), "b": a_piece(last="")}

    assert sorted(passages(pieces)) == [("a", 30, 3), ("b", 30, 3)]


def test_a_piece_in_more_texts_than_the_one_before_it_is_another():
    pieces = {"a": a_piece(next="b"), "b": a_piece(last="a", num_texts=4)}

    assert len(passages(pieces)) == 2


def test_a_piece_of_one_conversation_is_none():
    assert passages({"a": a_piece(is_shared=False)}) == []


def test_texts_that_are_remembered_count():
    assert passages({"a": a_piece()}, pieces=("a",)) == [("a", 30, 4)]


def test_texts_that_are_told_themselves_do_not():
    known = {("gpt-4o", "t"): Text("system", "p", "", 50, 1, num_sent=5, pieces=("a",))}

    found, _ = rows(
        known, {("gpt-4o", "a"): a_piece(num_sent=0)},
        period=None, has_times=False, min_tokens=1, catalog=catalog.builtin(),
    )  # fmt: skip

    assert [one.kind for one in found] == ["system"]


def test_what_follows_is_nothing_once_it_varies():
    piece = a_piece(next=None)

    piece.followed_by("x")
    same = piece.next
    piece.followed_by("y")
    piece.followed_by("y")

    assert (same, piece.next) == ("x", "")


def test_the_shortest_time_counts():
    assert shortest_ttl(catalog.model("claude-opus-5")) == ("5m", 300)
    assert shortest_ttl(None) is None
