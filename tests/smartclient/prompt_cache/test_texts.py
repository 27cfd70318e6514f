"""Where two texts part, and in what way."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smartclient.prompt_cache.texts import excerpt, shared_length, text_difference


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param("one two", "one four", ("edit", 4, 3, 4), id="word"),
        pytest.param("one", "one two", ("edit", 3, 0, 4), id="grew"),
        pytest.param("one two", "one", ("truncation", 3, 4, 0), id="cut"),
        pytest.param("one two" * 9, "one... [truncated]", ("truncation", 3, 60, 15), id="said-so"),
        pytest.param("one two" * 9, "one…", ("truncation", 3, 60, 1), id="dots"),
        pytest.param("one two", "one  two", ("whitespace", 4, 0, 1), id="space"),
        pytest.param("one\ntwo", "one\r\ntwo", ("whitespace", 3, 0, 1), id="newline"),
        pytest.param("one two", "onetwo", ("whitespace", 3, 1, 0), id="no-space"),
        pytest.param("a\u00a0é", "a é", ("whitespace", 1, 1, 1), id="hard-space"),
        pytest.param("one ", "one", ("whitespace", 3, 1, 0), id="end"),
        pytest.param("a b c", "a  b d", ("edit", 2, 3, 4), id="space-and-word"),
        pytest.param("😀 one", "😀 two", ("edit", 2, 3, 3), id="one-character-each"),
        pytest.param("", "x", ("edit", 0, 0, 1), id="empty"),
        pytest.param("x", "", ("truncation", 0, 1, 0), id="emptied"),
    ],
)
def test_a_difference_has_a_kind_an_offset_and_lengths(before, after, told):
    found = text_difference(before, after)

    assert found[:4] == told


@given(st.text(), st.text())
def test_what_is_shared_is_all_that_is_shared(before, after):
    shared = shared_length(before, after)

    assert before[:shared] == after[:shared]
    assert before[shared : shared + 1] != after[shared : shared + 1] or before == after


@given(st.text(), st.text())
def test_the_changed_part_makes_one_text_of_the_other(before, after):
    assume(before != after)

    found = text_difference(before, after)

    end = found.offset + found.after_len
    head, middle = before[: found.offset], after[found.offset : end]
    assert head + middle + before[found.offset + found.before_len :] == after


def test_an_excerpt_is_short():
    assert excerpt("x" * 100 + "y" * 100, 100) == "x" * 10 + "y" * 30
