"""Outputs that match a grammar."""

from __future__ import annotations

import json
import re

import jsonschema_rs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from server_reference.checkpoints.registry import front
from server_reference.text.grammar import GrammarCompiler
from server_reference.text.tokenizer import ByteTokenizer
from tests.server_reference.text.grammars import a_grammar, generated, text_of, tokens_of

BYTES = ByteTokenizer()
END, START = 257, 256

FINITE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b", None]}, "maxItems": 3},
        "point": {"$ref": "#/$defs/point"},
    },
    "required": ["name", "point"],
    "additionalProperties": False,
    "$defs": {
        "point": {
            "type": "array",
            "prefixItems": [{"type": "boolean"}, {"const": 1.5}],
            "items": False,
            "minItems": 2,
        }
    },
}
REGEX = r"[a-z]{2,5}@(é|ß)+\.(com|de){1,2}"
CHOICES = ["a", "ab", 'q"\\\n/', "", "😀é", "<|im_end|>"]
LARK = 'start: <|im_start|> call <|im_start|>\ncall: "f(" /[0-9]{1,3}/ ")" | %json {"type": "null"}'


@pytest.fixture(scope="module")
def bpe_compiler(smollm2_gguf):
    tokenizer = front(str(smollm2_gguf)).tokenizer
    return GrammarCompiler(tokenizer), tokenizer


def matches(grammar, text):
    if grammar.kind == "json_schema":
        jsonschema_rs.validate(json.loads(grammar.source), json.loads(text))
        return re.search(r"\s\s|\n", text) is None
    if grammar.kind == "regex":
        return re.fullmatch(grammar.source, text) is not None
    return text in json.loads(grammar.source)


KINDS = [
    pytest.param(a_grammar("json_schema", FINITE), id="schema"),
    pytest.param(a_grammar("regex", REGEX.replace("+", "{1,9}")), id="regex"),
    pytest.param(a_grammar("choice", CHOICES), id="choice"),
]


@pytest.mark.parametrize("grammar", KINDS)
@pytest.mark.parametrize("seed", range(25))
def test_what_random_weights_write_matches_and_ends_by_itself(compiler, grammar, seed):
    tokens = generated(compiler.compile(grammar), BYTES, seed=seed)

    assert len(tokens) < 200
    assert matches(grammar, text_of(tokens, BYTES))


@pytest.mark.smollm2
@pytest.mark.parametrize("grammar", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_so_it_does_in_byte_pairs(bpe_compiler, grammar, seed):
    compiler, tokenizer = bpe_compiler

    tokens = generated(compiler.compile(grammar), tokenizer, seed=seed)

    assert len(tokens) < 200
    assert matches(grammar, text_of(tokens, tokenizer))


@pytest.mark.parametrize("seed", range(5))
def test_lark_can_ask_for_control_tokens(compiler, seed):
    tokens = generated(compiler.compile(a_grammar("lark", LARK)), BYTES, seed=seed)

    assert tokens[0] == tokens[-1] == START
    assert re.fullmatch(r"f\(\d{1,3}\)|null", text_of(tokens, BYTES))


def test_the_turn_may_end_exactly_when_the_output_is_complete(compiler):
    state = compiler.compile(a_grammar("choice", ["a", "ab"]))
    ends = []
    for token in b"ab":
        ends.append(tokens_of(state.allowed()) & BYTES.eos_token_ids)
        state.advance(token)
    ends.append(tokens_of(state.allowed()))

    assert ends == [set(), BYTES.eos_token_ids, BYTES.eos_token_ids]


@pytest.mark.parametrize(
    ("text", "is_finished"), [(b"", False), (b"a", False), (b"ab", True), (b"c", True)]
)
def test_is_finished_where_nothing_can_follow(compiler, text, is_finished):
    state = compiler.compile(a_grammar("choice", ["a", "ab", "c"]))

    assert all(state.advance(token) for token in text)
    assert state.is_finished is is_finished


def test_the_end_of_the_turn_finishes(compiler):
    state = compiler.compile(a_grammar("choice", ["a", "ab"]))

    assert all(map(state.advance, [*b"a", END]))

    assert state.is_finished


def test_a_token_that_does_not_fit_changes_nothing(compiler):
    state = compiler.compile(a_grammar("choice", ["ab"]))
    state.advance(ord("a"))

    assert not state.advance(ord("x"))

    assert tokens_of(state.allowed()) == {ord("b")}


def test_a_string_holds_no_control_token(compiler):
    """Neither a user's schema nor a model may end a turn within it."""
    state = compiler.compile(a_grammar("json_schema", {"type": "string"}))
    state.advance(ord('"'))

    assert not tokens_of(state.allowed()) & {*BYTES.control_tokens.ids.values()}


def test_whitespace_is_one_space_after_a_separator_whatever_the_schema_asks_for(compiler):
    schema = {"x-guidance": {"whitespace_flexible": True}, **FINITE}
    state = compiler.compile(a_grammar("json_schema", schema))

    assert not state.advance(ord(" "))
    assert all(map(state.advance, b'{"name": '))
    assert not state.advance(ord(" "))
    assert not state.advance(ord("\n"))


STEPS = st.lists(st.integers(1, 2**20), max_size=12)


@given(st.sampled_from([kind.values[0] for kind in KINDS]), STEPS, STEPS)
def test_a_state_is_where_it_was_whatever_becomes_of_its_copy(grammar, before, after):
    compiler = GrammarCompiler(BYTES)
    state, other = compiler.compile(grammar), compiler.compile(grammar)
    for token in _taken(state, before):
        assert other.advance(token)
    finished = state.is_finished

    _taken(state.copy(), after)

    assert state.is_finished == other.is_finished == finished
    assert finished or torch.equal(state.allowed(), other.allowed())


@given(st.sampled_from([kind.values[0] for kind in KINDS]), STEPS)
def test_a_copy_goes_on_from_where_its_original_is(grammar, before):
    compiler = GrammarCompiler(BYTES)
    state, other = compiler.compile(grammar), compiler.compile(grammar)
    taken = _taken(state, before)

    assert all(map(other.copy().advance, taken))
    assert state.copy().is_finished == state.is_finished
    assert state.is_finished or torch.equal(state.copy().allowed(), state.allowed())


def _taken(state, choices):
    """Advance by allowed tokens, chosen by number, up to one that ends the turn."""
    taken = []
    for choice in choices:
        if not {*taken[-1:]} & BYTES.eos_token_ids and not state.is_finished:
            tokens = sorted(tokens_of(state.allowed()))
            taken.append(tokens[choice % len(tokens)])
            assert state.advance(taken[-1])
    return taken


def test_nothing_follows_the_end_of_the_turn(compiler):
    state = compiler.compile(a_grammar("choice", ["a", "ab"]))

    taken = [state.advance(token) for token in [*b"a", END, END, *b"b"]]

    assert taken == [True, True, False, False]


def test_states_of_one_grammar_go_their_own_ways(compiler):
    """`n` outputs of one request."""
    one, two = (compiler.compile(a_grammar("choice", ["ab", "cd"])) for _ in range(2))
    one.advance(ord("a"))

    allowed = [tokens_of(state.allowed()) for state in (one, two)]

    assert allowed == [{ord("b")}, {*b"ac"}]


def test_more_grammars_than_are_kept_compile(compiler):
    grammars = [a_grammar("choice", [f"{at}"]) for at in range(40)]

    states = [compiler.compile(grammar) for grammar in grammars * 2]

    assert all(len(tokens_of(state.allowed())) == 1 for state in states)


def test_min_tokens_cannot_keep_a_complete_output_from_ending(compiler):
    state = compiler.compile(a_grammar("choice", ["a"]))

    assert generated(state, BYTES, seed=0, min_tokens=5) == [*b"a"]


@pytest.mark.parametrize("params", [{"min_tokens": 3}, {"ignore_eos": True}])
def test_an_output_that_may_not_end_goes_on_as_far_as_the_grammar_does(compiler, params):
    grammar = a_grammar("regex", "a{1,3}")

    outputs = [generated(compiler.compile(grammar), BYTES, seed=seed, **params) for seed in (0, 1)]

    assert outputs == [[*b"aaa"]] * 2
