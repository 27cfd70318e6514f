"""Long text in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.tokens.pieces import pieces, well_formed

words = st.text(alphabet="abé漢1 .!\n\t", max_size=200)


@given(words, st.integers(1, 30))
def test_nothing_is_lost_and_no_piece_is_too_long(text, limit):
    found = list(pieces(text, limit))

    assert "".join(found) == text
    assert max(map(len, found)) <= limit


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
@given(text=st.text(alphabet="abXé漢1' .!/\n\t", min_size=40, max_size=400))
def test_pieces_count_to_the_sum_of_the_whole_where_a_token_ends(truth, encoding, text):
    found = list(pieces(text, 100))
    ends = [piece for piece in found[:-1] if not _is_certain(piece)]

    counted = sum(truth[encoding](piece) for piece in found)

    assert abs(counted - truth[encoding](text)) <= 2 * len(ends)


def _is_certain(piece):
    """Whether `piece` ends at a letter or a line break, as a certain end does."""
    return piece[-1] == "\n" or (piece[-1].isascii() and piece[-1].isalpha())


def test_a_text_is_cut_between_words():
    assert list(pieces("one two three", 10)) == ["one two", " three"]


def test_a_text_without_words_is_cut_all_the_same():
    assert [len(piece) for piece in pieces("a" * 25, 10)] == [10, 10, 5]


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=[])))
def test_what_is_well_formed_can_be_encoded_and_is_as_the_codec_replaces_it(text):
    expected = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    assert well_formed(text) == expected
