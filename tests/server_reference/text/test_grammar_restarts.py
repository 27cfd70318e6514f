"""When a state starts once more from a grammar compiled anew, for which everyone waits."""

from __future__ import annotations

import json

import pytest

from server_reference.core import Grammar
from server_reference.text.grammar import GrammarCompiler
from server_reference.text.tokenizer import ByteTokenizer

SOME = {"type": "object", "properties": {f"p{at}": {"type": "null"} for at in range(300)}}
OTHERS = SOME | {"properties": {f"q{at}": {} for at in range(300)}}
MANY = Grammar(kind="json_schema", source=json.dumps({"anyOf": [SOME, OTHERS]}))
WILD = Grammar(kind="regex", source="(.{1,100}){1,100}")
LONG = Grammar(kind="regex", source="(.{1,100}){1,100}" + "|b" * 5000)


@pytest.fixture
def compiler():
    return GrammarCompiler(ByteTokenizer())


def stopped_by(compiler, grammar, text):
    """Why an output cannot go on, and whether its grammar was compiled once more."""
    state = compiler.compile(grammar)
    begun = compiler._compiled[grammar]
    for byte in text:
        if state.allowed() is None or not state.advance(byte):
            break
    return state.obstacle, compiler._compiled[grammar] is not begun


def test_what_is_too_much_for_the_parser_is_not_compiled_again(compiler):
    obstacle, is_new = stopped_by(compiler, MANY, b'{"')

    assert "items; max is 2000" in obstacle
    assert not is_new


def test_a_short_grammar_whose_lexer_is_full_is_compiled_again_and_a_long_one_is_not(compiler):
    text = bytes(97 + at * at % 26 for at in range(300))

    assert stopped_by(compiler, WILD, text)[1]
    obstacle, is_new = stopped_by(compiler, LONG, text)

    assert obstacle.startswith("lexer")
    assert not is_new


def test_what_is_kept_is_known_to_be(compiler):
    assert not compiler.has(MANY)

    compiler.compile(MANY)

    assert compiler.has(MANY)
