"""What an output must match: which tokens may come next, by llguidance.

A grammar is over bytes, and tokens are walked byte by byte, so an output matches however
it is cut into tokens. Control tokens match no text, but stand in Lark as `<|name|>`.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Set
from decimal import Decimal
from math import lcm
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..core import Grammar
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from llguidance._lib import JsonCompileOptions

__all__ = ["GrammarCompiler", "GrammarError", "GrammarState"]

_MAX_SOURCE = 2**16  # characters
# llguidance 1.9 follows references by recursion, and its process ends where the stack does: at
# some 700 `$ref` or 2,500 rules of 8 MB. A `multipleOf` of 9,999 takes it 0.05 s, and one of
# 9,999,999 for ever; of several it counts their common multiple, zeros at the end left out.
_MAX_REFS, _MAX_LINES, _MAX_MULTIPLE = 200, 500, 10_000
_MULTIPLE = re.compile(r'multipleOf\\*"\s*:\s*-?(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)')
_MAX_CACHED = 32
# With the default of 250,000 lexer states, of 1 to 2 KB each, one grammar could fill memory.
_MAX_LEXER_STATES, _MAX_SYMBOLS = 10_000, 20_000
# One space at most: models given free whitespace may write it to the end (vllm#13260).
_COMPACT: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
}


class GrammarError(ValueError):
    """A grammar cannot be compiled, or an output cannot go on under it."""


class GrammarCompiler:
    """Compiles grammars for one tokenizer, and keeps the latest 32. Not thread-safe.

    Cost:
        SmolLM2's tokenizer 0.2 s once; a schema of a few properties 1 ms, one as long as is
        accepted 0.1 s. A mask 5 to 150 µs, at most 15 ms; a copy 6 µs.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._walked: LLTokenizer | None = None
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()

    def compile(self, grammar: Grammar) -> GrammarState:
        """The state before the first token, independent of all others.

        Raises:
            GrammarError: It is no grammar, has what llguidance does not support, is too
                long or too complex, or matches nothing.
            ModuleNotFoundError: llguidance is not installed.
        """
        matcher = self._compiled.pop(grammar, None) or self._compile(grammar)
        self._compiled[grammar] = matcher
        if len(self._compiled) > _MAX_CACHED:
            self._compiled.popitem(last=False)
        return GrammarState(matcher.deep_copy(), self._tokenizer.eos_token_ids)

    def _compile(self, grammar: Grammar) -> LLMatcher:
        from llguidance import LLMatcher, LLParserLimits

        if not self._tokenizer.eos_token_ids:
            raise GrammarError(
                f"the {grammar.kind} cannot be used: this model has no token that ends its turn"
            )
        source = _rewritten(grammar)
        _check_size(grammar, source)
        self._walked = self._walked or _walked(self._tokenizer)
        limits = LLParserLimits(
            max_lexer_states=_MAX_LEXER_STATES,
            max_grammar_size=_MAX_SYMBOLS,
            verbose_errors=False,
        )
        matcher = LLMatcher(self._walked, source, log_level=0, limits=limits)
        try:
            GrammarState(matcher, frozenset()).allowed()  # some limits are found only by running
        except GrammarError as error:
            raise GrammarError(f"the {grammar.kind} cannot be used: {error}") from None
        return matcher


class GrammarState:
    """How far one output has come; `eos` are the tokens that end the model's turn."""

    def __init__(self, matcher: LLMatcher, eos: Set[int]) -> None:
        self._matcher, self._eos = matcher, eos
        self._has_ended = False  # kept here: llguidance takes such a token back only sometimes

    @property
    def is_finished(self) -> bool:
        """Whether the output is complete and nothing can follow, not even by choice."""
        stopped = bool(self._matcher.is_stopped()) and not self._matcher.is_error()
        return self._has_ended or stopped

    def allowed(self) -> Tensor:
        """The tokens that may come next: a bit each, int32, `[vocab_size / 32]` rounded up.

        Tokens that end the turn are among them exactly when the output is complete as it
        stands. Behind a token that ended it, all of this is of no use.

        Raises:
            GrammarError: None may, or to find out takes too long.
        """
        mask = torch.frombuffer(bytearray(self._matcher.compute_bitmask()), dtype=torch.int32)
        if self._matcher.is_error():
            raise GrammarError(_reason(self._matcher))
        if not mask.any():
            raise GrammarError("no token can follow here")
        return mask

    def advance(self, token: int) -> bool:
        """Take a token; `False`, and no change, where the grammar does not allow it."""
        if self._has_ended:
            return False
        if token in self._eos:
            self._has_ended = bool(self._matcher.is_accepting())
            return self._has_ended
        return self._matcher.try_consume_tokens([token]) == 1

    def rollback(self, num_tokens: int) -> None:
        """Undo the latest `num_tokens` tokens.

        Raises:
            ValueError: So many were not taken.
        """
        if num_tokens and self._has_ended:
            self._has_ended = False
            num_tokens -= 1
        if num_tokens and not self._matcher.rollback(num_tokens):
            raise ValueError(f"cannot take back {num_tokens} tokens: {_reason(self._matcher)}")


def _check_size(grammar: Grammar, source: str) -> None:
    digits = [Decimal(found).normalize().as_tuple().digits for found in _MULTIPLE.findall(source)]
    multiples = [int("".join(map(str, its))) for its in digits]
    lines = grammar.source.count("\n") if grammar.kind == "lark" else 0
    for what, number, most in (
        ("references", source.count("$ref"), _MAX_REFS),
        ("lines", lines, _MAX_LINES),
        ("steps to a common `multipleOf`", min(lcm(*multiples), 10**12), _MAX_MULTIPLE),
    ):
        if number > most:
            raise GrammarError(f"the {grammar.kind} has {number:,} {what}; at most {most:,} do")


def _rewritten(grammar: Grammar) -> str:
    """In the form that llguidance reads."""
    from llguidance import LLMatcher

    if len(grammar.source) > _MAX_SOURCE:
        raise GrammarError(
            f"the {grammar.kind} has {len(grammar.source):,} characters; at most {_MAX_SOURCE:,} do"
        )
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


def _reason(matcher: LLMatcher) -> str:
    """The first line of llguidance's error."""
    lines = matcher.get_error().strip().splitlines()
    return lines[0][:300] if lines else "it is at its end"
