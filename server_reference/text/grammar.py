"""What an output must match: which tokens may come next, by llguidance.

A grammar is over bytes, and tokens are walked byte by byte, so an output matches however
it is cut into tokens. Control tokens match no text, but stand in Lark as `<|name|>`.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Set
from copy import copy
from decimal import Decimal
from functools import partial
from math import lcm
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..core import MAX_GRAMMAR_LENGTH, Grammar
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from llguidance._lib import JsonCompileOptions

__all__ = ["GrammarCompiler", "GrammarError", "GrammarState"]

# llguidance 1.9 follows references by recursion, and its process ends where the stack does: at
# some 700 `$ref` or 2,500 rules of 8 MB. A `multipleOf` of 9,999 takes it 0.05 s, and one of
# 9,999,999 for ever; of several it counts their common multiple, zeros at the end left out.
# Optional properties of an object take it the square of their number, and above 498 are more
# than its parser follows.
_MAX_REFS, _MAX_LINES, _MAX_MULTIPLE, _MAX_OPTIONAL = 200, 500, 10_000, 490
_MULTIPLE = re.compile(r'"multipleOf": -?(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)')
_JSON = re.compile(r"%json\s*")
_MAX_CACHED = 32
# With the default of 250,000 lexer states, of 1 to 2 KB each, one grammar could fill memory.
_MAX_LEXER_STATES, _MAX_SYMBOLS = 10_000, 20_000
_RESTARTS, _TOKENS_PER_RESTART = 4, 16  # of one state: so many, and one more for so many tokens
_MAX_RESTARTED = 2**13  # characters: a longer one is compiled for so long that all others wait
# One space at most: models given free whitespace may write it to the end (vllm#13260).
_COMPACT: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
}


class GrammarError(ValueError):
    """A grammar cannot be compiled."""


class GrammarCompiler:
    """Compiles grammars for one tokenizer, and keeps the latest 32. Threads may share it.

    Cost:
        SmolLM2's tokenizer 0.2 s once; a schema of a few properties 1 ms, one as long as is
        accepted 0.5 s. A mask 5 to 150 µs, at most 15 ms; a copy 1 to 6 µs.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._walked: LLTokenizer | None = None
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()

    def has(self, grammar: Grammar) -> bool:
        """Whether it is kept, so that its next state costs nothing."""
        return grammar in self._compiled

    def compile(self, grammar: Grammar) -> GrammarState:
        """The state before the first token, independent of all others.

        Raises:
            GrammarError: It is no grammar, has what llguidance does not support, is too
                long or too complex, or matches nothing.
            ModuleNotFoundError: llguidance is not installed.
        """
        begin = partial(self._begin, grammar)
        can_restart = len(grammar.source) <= _MAX_RESTARTED
        begun, again = begin(None), begin if can_restart else None
        return GrammarState(begun, again, self._tokenizer.eos_token_ids)

    def _begin(self, grammar: Grammar, full: LLMatcher | None) -> LLMatcher:
        """What all states of a grammar are copies of, but not `full`, which is of no more use."""
        begun = self._compiled.pop(grammar, None)
        if begun is None or begun is full:
            begun = self._compile(grammar)
        self._compiled[grammar] = begun
        if len(self._compiled) > _MAX_CACHED:
            self._compiled.popitem(last=False)
        return begun

    def _compile(self, grammar: Grammar) -> LLMatcher:
        from llguidance import LLMatcher, LLParserLimits

        if not self._tokenizer.eos_token_ids:
            raise GrammarError(
                f"the {grammar.kind} cannot be used: this model has no token that ends its turn"
            )
        source = _rewritten(grammar)
        _check_size(grammar)
        self._walked = self._walked or _walked(self._tokenizer)
        limits = LLParserLimits(
            max_lexer_states=_MAX_LEXER_STATES,
            max_grammar_size=_MAX_SYMBOLS,
            verbose_errors=False,
        )
        matcher = LLMatcher(self._walked, source, log_level=0, limits=limits)
        mask = _mask(matcher)
        if matcher.is_error() or not mask.any():  # some limits are found only by running
            raise GrammarError(f"the {grammar.kind} cannot be used: {_reason(matcher)}")
        return matcher


class GrammarState:
    """How far one output has come.

    llguidance never forgets a state of its lexer, and the copies of a matcher share them. So
    where these reach their limit, a state starts once more from a matcher that has none.

    Args:
        begun: What it is a copy of.
        begin: Another one, given one that is full; `None`: that would take too long.
        eos: Tokens that end the model's turn.

    Attributes:
        obstacle: Why it cannot go on; empty while it can.
    """

    def __init__(
        self, begun: LLMatcher, begin: Callable[[LLMatcher], LLMatcher] | None, eos: Set[int]
    ) -> None:
        self._begun, self._begin, self._eos = begun, begin, eos
        self._matcher = begun.deep_copy()
        self._taken: list[int] = []
        self._restarts = 0
        self._has_ended = False  # kept here: llguidance takes such a token only sometimes
        self.obstacle = ""

    @property
    def is_finished(self) -> bool:
        """Whether the output is complete and nothing can follow, not even by choice."""
        stopped = bool(self._matcher.is_stopped()) and not self._matcher.is_error()
        return self._has_ended or stopped

    def allowed(self) -> Tensor | None:
        """The tokens that may come next: a bit each, int32, `[vocab_size / 32]` rounded up.

        `None` where none may, or to find out takes too long; then `advance` takes none either.
        Tokens that end the turn are among them exactly when the output is complete as it
        stands. Behind a token that ended it, all of this is of no use.
        """
        if self.obstacle:
            return None
        mask = _mask(self._matcher)
        if self._matcher.is_error() and self._restart(self._taken):
            mask = _mask(self._matcher)
        if self._matcher.is_error() or not mask.any():
            self.obstacle = _reason(self._matcher)
            return None
        return mask

    def advance(self, token: int) -> bool:
        """Take a token; `False`, and no change, where it cannot be taken."""
        if self._has_ended or self.obstacle:
            return False
        if token in self._eos:
            self._has_ended = bool(self._matcher.is_accepting())
            return self._has_ended
        is_taken = self._matcher.try_consume_tokens([token]) == 1
        if self._matcher.is_error():
            is_taken = self._restart([*self._taken, token])
            self.obstacle = _reason(self._matcher) if self._matcher.is_error() else ""
        if is_taken:
            self._taken.append(token)
        return is_taken

    def copy(self) -> GrammarState:
        """One that goes its own way from here."""
        other = copy(self)
        other._matcher, other._taken = self._matcher.deep_copy(), [*self._taken]
        return other

    def _restart(self, tokens: list[int]) -> bool:
        """Take all tokens once more; `False` where that fails too, or happens all the time.

        Only the lexer's states are forgotten so: what is too much for the parser stays so.
        """
        if self._begin is None or not self._matcher.get_error().startswith("lexer"):
            return False
        if self._restarts >= _RESTARTS + len(self._taken) // _TOKENS_PER_RESTART:
            return False
        self._restarts += 1
        self._begun = self._begin(self._begun)
        self._matcher = self._begun.deep_copy()
        return self._matcher.try_consume_tokens(tokens) == len(tokens)


def _check_size(grammar: Grammar) -> None:
    lines = grammar.source.count("\n") if grammar.kind == "lark" else 0
    limits = [("lines", lines, _MAX_LINES)]
    for schema in _schemas(grammar):
        text = json.dumps(schema)
        found = (Decimal(one).normalize().as_tuple().digits for one in _MULTIPLE.findall(text))
        step = min(lcm(*(int("".join(map(str, digits))) for digits in found)), 10**12)
        limits += [
            ("references in a schema", text.count('"$ref"'), _MAX_REFS),
            ("optional properties of an object", _most_optional(schema), _MAX_OPTIONAL),
            ("steps to a common `multipleOf`", step, _MAX_MULTIPLE),
        ]
    for what, number, most in limits:
        if number > most:
            raise GrammarError(f"the {grammar.kind} has {number:,} {what}; at most {most:,} do")


def _schemas(grammar: Grammar) -> Iterator[Any]:
    """The JSON schemas that a grammar is, or holds."""
    if grammar.kind == "json_schema":
        yield json.loads(grammar.source)
    end = 0
    while grammar.kind == "lark" and (mark := _JSON.search(grammar.source, end)) is not None:
        try:
            schema, end = json.JSONDecoder().raw_decode(grammar.source, mark.end())
            yield schema
        except (ValueError, RecursionError):
            end = mark.end()  # a mark in a text, or no JSON, of which llguidance complains


def _most_optional(schema: Any) -> int:
    left, most = [schema], 0
    for one in left:  # grows meanwhile
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        names = one.get("properties") if isinstance(one, dict) else None
        if isinstance(names, dict):
            required = one.get("required")
            others = (
                names if not isinstance(required, list) else [n for n in names if n not in required]
            )
            most = max(most, len(others))
    return most


def _rewritten(grammar: Grammar) -> str:
    """In the form that llguidance reads."""
    from llguidance import LLMatcher

    length, most = len(grammar.source), MAX_GRAMMAR_LENGTH
    if length > most:
        raise GrammarError(f"the {grammar.kind} has {length:,} characters; at most {most:,} do")
    if grammar.kind == "regex":
        return LLMatcher.grammar_from_regex(grammar.source)
    if grammar.kind == "lark":
        return LLMatcher.grammar_from_lark(grammar.source)
    try:
        value = json.loads(grammar.source)
        if grammar.kind == "json_schema":
            return LLMatcher.grammar_from_json_schema(json.dumps(value), overrides=_COMPACT)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"the {grammar.kind} is no JSON that can be used: {error}") from error
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise GrammarError("the choices must be a JSON array of strings, at least one")
    return LLMatcher.grammar_from_lark("start: " + " | ".join(map(json.dumps, value)))


def _walked(tokenizer: Tokenizer) -> LLTokenizer:
    """A tokenizer as llguidance walks it."""
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(
        TokenizerWrapper(_Vocabulary(tokenizer)), eos_token=sorted(tokenizer.eos_token_ids)
    )


class _Vocabulary:
    """The attributes that llguidance's `TokenizerWrapper` reads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        names = {token: name.encode() for name, token in tokenizer.control_tokens.ids.items()}
        ids = range(tokenizer.vocab_size)
        self.tokens = [names.get(token) or tokenizer.token_bytes(token) for token in ids]
        self.special_token_ids = sorted(names)
        self.eos_token_id = min(tokenizer.eos_token_ids)
        self.bos_token_id = tokenizer.bos_token_id
        self._encode = tokenizer.encode

    def __call__(self, text: bytes) -> list[int]:
        return self._encode(text.decode("utf-8", "replace"))


def _mask(matcher: LLMatcher) -> Tensor:
    return torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.int32)


def _reason(matcher: LLMatcher) -> str:
    """The first line of llguidance's error."""
    lines = matcher.get_error().strip().splitlines()
    return lines[0][:300] if lines else "no token can follow"
