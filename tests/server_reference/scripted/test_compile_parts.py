from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_reference.scripted.answers import ToolCall
from server_reference.scripted.compile_parts import arguments_of, pieces, sse


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("Hello there, friend", ["Hello", " there,", " friend"], id="words"),
        pytest.param(" a \n", [" a \n"], id="spaces-outside"),
        pytest.param("  ", ["  "], id="only-spaces"),
        pytest.param(["one two", "", "three"], ["one two", "three"], id="given-in-pieces"),
    ],
)
def test_text_is_cut_before_each_word(text, cut):
    assert pieces(text) == cut


@given(st.text())
def test_cutting_loses_nothing(text):
    assert "".join(pieces(text)) == text


def test_arguments_that_are_text_are_sent_as_they_are():
    assert arguments_of(ToolCall("f", '{"a":')) == '{"a":'


def test_an_event_is_named_and_on_one_line():
    assert sse({"text": "a\nb"}, name="x").data == b'event: x\ndata: {"text":"a\\nb"}\n\n'
