"""Whole characters, and nothing of a stop string."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_reference.text.detokenizer import Detokenizer


def texts(pieces, *, stop=()):
    """What each piece of bytes adds, then what the end adds, and what stopped it."""
    detokenizer = Detokenizer(pieces.__getitem__, stop=stop)
    given_out = [detokenizer.push(token) for token in range(len(pieces))]
    return [*given_out, detokenizer.flush()], detokenizer.stopped_by


def split(data, cuts):
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


def test_a_character_waits_for_its_last_byte():
    snowman = "☃".encode()

    assert texts([b"a", snowman[:1], snowman[1:2], snowman[2:]]) == (["a", "", "", "☃", ""], None)


def test_an_unfinished_character_becomes_a_replacement_at_the_end():
    assert texts([b"a", "☃".encode()[:2]]) == (["a", "", "�"], None)


def test_an_unfinished_character_becomes_a_replacement_before_what_follows():
    assert texts(["☃".encode()[:2], b"ok"])[0] == ["", "�ok", ""]


def test_bytes_that_are_no_utf8_do_not_hold_up_what_follows():
    """A prompt that ends within a character leaves such bytes (vllm#48853)."""
    assert texts([b"\xbf\xa9", b"ok"])[0] == ["��", "ok", ""]


def test_a_control_token_adds_nothing():
    assert texts([b"a", b"", b"b"])[0] == ["a", "", "b", ""]


def test_the_text_before_a_stop_string_is_given_out_and_the_stop_is_not():
    assert texts([b"one", b" END", b"two"], stop=("END",)) == (["one", " ", "", ""], "END")


def test_a_stop_string_over_three_tokens_is_found():
    """Nothing of it may leak (vllm#3574), and `endswith` would miss it (vllm#2577)."""
    assert texts([b"aE", b"N", b"Db"], stop=("END",)) == (["a", "", "", ""], "END")


def test_what_only_looked_like_a_stop_string_is_given_out():
    assert texts([b"aE", b"N", b"Q"], stop=("END",)) == (["a", "", "ENQ", ""], None)


def test_what_was_held_back_comes_at_the_end():
    assert texts([b"aEN"], stop=("END",)) == (["a", "EN"], None)


def test_only_a_possible_beginning_is_held_back():
    """Not a fixed number of characters (vllm#45636)."""
    assert texts([b"hello world"], stop=("a very long stop string",))[0] == ["hello world", ""]


def test_a_stop_string_that_repeats_its_beginning_is_found():
    assert texts([b"aa", b"ab"], stop=("aab",)) == (["", "a", ""], "aab")


@pytest.mark.parametrize(
    ("text", "stop", "before", "stopped_by"),
    [
        pytest.param(b"xyz", ("z", "y"), "x", "y", id="the-earlier"),
        pytest.param(b"abcd", ("bcd", "c"), "ab", "c", id="the-one-that-ends-first"),
        pytest.param(b"abc", ("c", "bc"), "a", "bc", id="the-longer-of-two-that-end-together"),
        pytest.param(b"abc", ("", "b"), "a", "b", id="an-empty-one-never-matches"),
    ],
)
def test_of_several_stop_strings(text, stop, before, stopped_by):
    given_out, by = texts([text], stop=stop)

    assert ("".join(given_out), by) == (before, stopped_by)


TEXT = st.text(alphabet="abé☃🙂", max_size=12)


@given(TEXT, st.lists(st.integers(0, 40), max_size=8), st.lists(TEXT, max_size=3))
def test_tokens_boundaries_never_change_the_text(text, cuts, stop):
    data = text.encode()
    stops = tuple(stop)

    whole, by_whole = texts([bytes([byte]) for byte in data], stop=stops)
    pieces, by_pieces = texts(split(data, cuts), stop=stops)

    assert ("".join(pieces), by_pieces) == ("".join(whole), by_whole)
    assert "�" not in "".join(pieces)


@given(TEXT, st.lists(st.integers(0, 40), max_size=8))
def test_without_stop_strings_all_text_comes_out(text, cuts):
    assert "".join(texts(split(text.encode(), cuts))[0]) == text
