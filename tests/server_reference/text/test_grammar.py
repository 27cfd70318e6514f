"""Outputs that match a grammar."""

from __future__ import annotations

import json
import random
import re

import jsonschema_rs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from server_reference.checkpoints.registry import front
from server_reference.core import Grammar
from server_reference.kernels.draw import banned_tokens
from server_reference.kernels.sampler import sample
from server_reference.text.grammar import GrammarCompiler, GrammarError
from server_reference.text.tokenizer import ByteTokenizer
from tests.server_reference.engine.sampling import a_draw

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


def a_grammar(kind, source):
    return Grammar(kind=kind, source=source if isinstance(source, str) else json.dumps(source))


@pytest.fixture(scope="module")
def compiler():
    return GrammarCompiler(BYTES)


@pytest.fixture(scope="module")
def bpe_compiler(smollm2_gguf):
    tokenizer = front(str(smollm2_gguf)).tokenizer
    return GrammarCompiler(tokenizer), tokenizer


def tokens_of(mask):
    words = mask.numpy().view("uint32")
    return {32 * at + bit for at, word in enumerate(words) for bit in range(32) if word >> bit & 1}


def generated(state, tokenizer, *, seed, most=200, **params):
    """The tokens that a model of random logits draws, up to the one that ends its turn."""
    noise = torch.Generator().manual_seed(seed)
    tokens = []
    draws = {"grammar": a_grammar("choice", ["any"]), **params}
    while len(tokens) < most:
        logits = torch.randn(1, tokenizer.vocab_size, generator=noise) * 2
        draw = a_draw(seed=seed, index=len(tokens), allowed=state.allowed(), **draws)
        banned = banned_tokens(draw.params, tokenizer.eos_token_ids, len(tokens))
        draw = a_draw(seed=seed, index=len(tokens), allowed=state.allowed(), banned=banned, **draws)
        (token,) = sample(logits, [draw]).host_tokens()
        assert state.advance(token)
        if token in tokenizer.eos_token_ids:
            return tokens
        tokens.append(token)
    return tokens


def text_of(tokens, tokenizer):
    return b"".join(map(tokenizer.token_bytes, tokens)).decode()


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
