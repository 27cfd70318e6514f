"""Grammars that are refused, and those that grow too complex."""

from __future__ import annotations

import json
import random

import pytest

from server_reference.text.grammar import GrammarCompiler, GrammarError
from server_reference.text.tokenizer import ByteTokenizer
from tests.server_reference.text.grammars import a_grammar, generated, text_of, tokens_of

BYTES = ByteTokenizer()


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        pytest.param("regex", "(a", "invalid regex", id="regex"),
        pytest.param("regex", "(?=a)b", "invalid regex", id="look-ahead"),
        pytest.param("regex", "[a&&b]", "the regex cannot be used", id="matches-nothing"),
        pytest.param("regex", "(" * 5000, "invalid regex", id="nested-regex"),
        pytest.param("regex", "x" * 140_000, "140,000 characters; at most 131,072", id="long"),
        pytest.param("choice", "[]", "at least one", id="no-choice"),
        pytest.param("choice", '["a", 1]', "array of strings", id="choice-of-numbers"),
        pytest.param("choice", "a", "the choice is no JSON", id="choice-no-json"),
        pytest.param("json_schema", "{", "the json_schema is no JSON", id="no-json"),
        pytest.param("json_schema", "[" * 9999, "is no JSON that can be used", id="nested-json"),
        pytest.param("json_schema", "5", "is no JSON that can be used", id="no-schema"),
        pytest.param("json_schema", '{"not": {}}', r"Unimplemented keys: \[.not", id="keyword"),
        pytest.param("json_schema", '{"type": "strin"}', "Invalid type: strin", id="type"),
        pytest.param("json_schema", '{"$ref": "http://a/b"}', "does not fetch", id="remote"),
        pytest.param(
            "json_schema",
            '{"type": "integer", "minimum": 5, "maximum": 3}',
            "Unsatisfiable",
            id="unsatisfiable",
        ),
        pytest.param(
            "json_schema",
            '{"allOf": [{"multipleOf": 997}, {"multipleOf": 9.91}]}',
            "988,027 steps to a common .multipleOf.; at most 10,000",
            id="multiples",
        ),
        pytest.param(
            "json_schema", '{"multipleOf": -9999999}', "9,999,999 steps", id="negative-multiple"
        ),
        pytest.param(
            "lark", 'start: %json {"multipleOf": 99999}', "99,999 steps", id="multiple-in-lark"
        ),
        pytest.param(
            "lark",
            'start: %json {"const": ' + "[" * 9999 + "]" * 9999 + "}",
            "recursion limit exceeded",
            id="nested-json-in-lark",
        ),
        pytest.param("lark", "start: a", 'unknown name: "a"', id="lark"),
        pytest.param("lark", "start: <|x|>", "unknown special token", id="control-token"),
        pytest.param("lark", 'start: "a"' + "\n" * 501, "501 lines", id="lines"),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_the_reason(compiler, kind, source, message):
    with pytest.raises(GrammarError, match=message) as raised:
        compiler.compile(a_grammar(kind, source))

    assert len(str(raised.value)) < 400


def test_a_choice_may_hold_what_looks_like_a_limit(compiler):
    state = compiler.compile(a_grammar("choice", ['"multipleOf": 1e', '"multipleOf": ...']))

    assert all(map(state.advance, b'"multipleOf": ...'))


@pytest.mark.parametrize("step", [0.01, 5, 1000, 9.99])
def test_a_usual_multiple_is_kept(compiler, step):
    schema = {"type": "number", "multipleOf": step, "minimum": 0, "maximum": 100 * step}

    text = text_of(
        generated(compiler.compile(a_grammar("json_schema", schema)), BYTES, seed=1), BYTES
    )

    assert round(float(text) / step, 6).is_integer()


@pytest.mark.parametrize("key", ["$ref", "\\u0024ref"])
def test_a_long_chain_of_references_does_not_end_the_process(compiler, key):
    """llguidance follows it by recursion."""
    links = ", ".join(f'"{at}": {{"{key}": "#/$defs/{at + 1}"}}' for at in range(1000))
    source = f'{{"{key}": "#/$defs/0", "$defs": {{{links}, "1000": {{}}}}}}'

    with pytest.raises(GrammarError, match="1,001 references in a schema; at most 200"):
        compiler.compile(a_grammar("json_schema", source))


def an_object(num_properties, **more):
    names = [f"p{num_properties}_{at}" for at in range(num_properties)]
    return {"type": "object", "properties": {name: {"type": "null"} for name in names}, **more}


def test_a_state_that_grows_too_complex_says_so_and_ends_alone(compiler):
    """What may follow is found by work that has a limit."""
    state = compiler.compile(a_grammar("json_schema", {"anyOf": [an_object(300), an_object(301)]}))
    other = compiler.compile(a_grammar("choice", ["b"]))
    assert state.obstacle == ""

    taken = [state.advance(token) for token in b'{"']

    assert (taken, state.allowed(), state.is_finished) == ([False, False], None, False)
    assert "items; max is 2000" in state.obstacle
    assert tokens_of(other.allowed()) == {ord("b")}


def test_a_model_without_an_end_of_turn_takes_no_grammar():
    tokenizer = ByteTokenizer()
    tokenizer.eos_token_ids = frozenset()

    with pytest.raises(GrammarError, match="no token that ends its turn"):
        GrammarCompiler(tokenizer).compile(a_grammar("choice", '["a"]'))


@pytest.mark.parametrize("kind", ["json_schema", "lark"])
def test_an_object_of_more_optional_properties_than_can_be_followed_is_refused(compiler, kind):
    """Its first brace would be the end, and it takes seconds to compile."""
    fitting, large = an_object(490), an_object(491)
    if kind == "lark":
        fitting, large = (f"start: %json {json.dumps(one)}" for one in (fitting, large))

    state = compiler.compile(a_grammar(kind, fitting))

    assert state.advance(ord("{"))
    assert state.allowed() is not None
    with pytest.raises(GrammarError, match="491 optional properties of an object; at most 490 do"):
        compiler.compile(a_grammar(kind, large))


def test_required_properties_may_be_more(compiler):
    names = [*an_object(1000)["properties"]]
    state = compiler.compile(a_grammar("json_schema", an_object(1000, required=names)))

    assert all(map(state.advance, b'{"p1000_0": null, "p1000_1": '))


def test_each_schema_in_lark_has_references_of_its_own(compiler):
    """As many tools have, whose arguments are models of pydantic's."""
    place = {"$ref": "#/$defs/place", "$defs": {"place": {"const": "Rome"}}}
    schemas = [f'"{at}" %json {json.dumps(place)}' for at in range(300)]
    state = compiler.compile(a_grammar("lark", f"start: {' | '.join(schemas)}"))

    assert all(map(state.advance, b'299"Rome"'))
    assert state.is_finished


LONG = {"type": "array", "items": {"type": "string", "maxLength": 4000}, "maxItems": 2}


def test_outputs_of_one_grammar_do_not_use_up_what_the_others_need(compiler):
    """llguidance counts the states of all of them against one limit, and forgets none."""
    texts = [json.dumps([letter * 3000] * 2) for letter in "abc"]
    states = [compiler.compile(a_grammar("json_schema", LONG)) for _ in texts]

    for tokens in zip(*map(str.encode, texts), strict=True):
        for state, token in zip(states, tokens, strict=True):
            assert state.allowed() is not None
            assert state.advance(token)

    assert all(state.is_finished for state in states)
    assert compiler.compile(a_grammar("json_schema", LONG)).allowed() is not None


def test_a_state_that_starts_once_more_is_where_it_was(compiler):
    state = compiler.compile(a_grammar("regex", "((a|b)*a(a|b){13}x)*y"))
    draw = random.Random(0)

    for _ in range(4000):
        token = ord(draw.choice("ab"))
        assert state.allowed() is not None
        assert state.advance(token)
        assert not state.copy().advance(ord("z"))
