"""What one row is sampled with, and whether it can be."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from ..core import Grammar, GrammarKind, SamplingParams

__all__ = [
    "MAX_LOGPROBS",
    "Draw",
    "banned_tokens",
    "check_params",
    "check_token_ids",
    "waits_for_host",
]

MAX_LOGPROBS = 20
"""Likeliest tokens that are told with a token at most."""

_GREEDY_BELOW = 1e-5  # a smaller temperature divides logits into infinity
_RANGES: dict[str, tuple[float, float]] = {
    "max_tokens": (0, 2**31 - 1),
    "min_tokens": (0, 2**31 - 1),
    "top_k": (1, 2**31 - 1),
    "logprobs": (0, MAX_LOGPROBS),
    "prompt_logprobs": (0, MAX_LOGPROBS),
    "temperature": (0.0, 1000.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (1e-3, 1e3),
    "frequency_penalty": (-1e3, 1e3),
    "presence_penalty": (-1e3, 1e3),
}
_OPTIONAL = ("top_k", "logprobs", "prompt_logprobs")
_MOST_BIAS = 1e30  # so that many of them on one token are no infinity in fp32


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What one row is sampled with.

    Args:
        seed: 64 bits.
        index: Which token of the output is drawn.
        prompt: The prompt's tokens, for penalties.
        output: Output tokens before `index`, drafts before this row included.
        allowed: What a grammar allows: a bit per token, int32, `[vocab_size / 32]`
            rounded up, on the host.
        banned: Tokens that may not come, such as those of `banned_tokens`. Where a grammar
            allows no others, they may: an output that is complete ends.
    """

    params: SamplingParams
    seed: int
    index: int
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()
    allowed: Tensor | None = None
    banned: Collection[int] = ()

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < _GREEDY_BELOW

    @property
    def repeats(self) -> bool:
        return self.params.repetition_penalty != 1.0

    @property
    def counts(self) -> bool:
        return self.params.frequency_penalty != 0.0 or self.params.presence_penalty != 0.0

    @property
    def has_rule(self) -> bool:
        """Whether anything changes its logits."""
        given = bool(self.banned or self.params.logit_bias) or self.allowed is not None
        return given or self.repeats or self.counts


def waits_for_host(params: SamplingParams) -> bool:
    """Whether a row can be drawn only once the output before it is known on the host."""
    return (
        params.grammar is not None
        or params.repetition_penalty != 1.0
        or params.frequency_penalty != 0.0
        or params.presence_penalty != 0.0
    )


def banned_tokens(params: SamplingParams, eos: Set[int], index: int) -> Set[int]:
    """Tokens that may not be drawn at output index `index`, because none may end it yet.

    With a grammar, `ignore_eos` makes the output go on for as long as the grammar can.
    """
    banned: Set[int] = frozenset()
    if index < params.min_tokens:
        banned = frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else eos)
    return banned | eos if params.ignore_eos and params.grammar is not None else banned


def check_params(params: SamplingParams, vocab_size: int) -> None:
    """Refuse what cannot be sampled.

    Raises:
        ValueError: A value is out of its range, or a token id is not below `vocab_size`.
    """
    for name, (least, most) in _RANGES.items():
        value, is_integer = getattr(params, name), type(least) is int
        if value is None and name in _OPTIONAL:
            continue
        known = type(value) is int or (type(value) is float and not is_integer)
        if not known or not least <= value <= most:  # a NaN is neither
            kind = "an integer" if is_integer else "a number"
            raise ValueError(
                f"{name} must be {kind} from {least:.10g} to {most:.10g}, not {value!r}"
            )
    if params.min_tokens > params.max_tokens:
        raise ValueError(
            f"min_tokens ({params.min_tokens}) is above max_tokens ({params.max_tokens}); "
            f"lower it, or raise max_tokens"
        )
    if params.seed is not None and type(params.seed) is not int:
        raise ValueError(f"seed must be an integer, not {params.seed!r}")
    if type(params.ignore_eos) is not bool:
        raise ValueError(f"ignore_eos must be True or False, not {params.ignore_eos!r}")
    _check_lists(params)
    check_token_ids("stop_token_ids", params.stop_token_ids, vocab_size)
    check_token_ids("logit_bias", [token for token, _ in params.logit_bias], vocab_size)
    for _, bias in params.logit_bias:
        if not (type(bias) in (int, float) and abs(bias) <= _MOST_BIAS):  # a NaN is not
            range = f"from {-_MOST_BIAS:g} to {_MOST_BIAS:g}"
            raise ValueError(f"logit_bias must be numbers {range}, not {bias!r}; try -100")
    _check_grammar(params.grammar)


def _check_lists(params: SamplingParams) -> None:
    def is_list(value: object) -> bool:
        return isinstance(value, tuple | list)

    if not is_list(params.stop) or not all(isinstance(text, str) for text in params.stop):
        raise ValueError(f"stop must be a tuple of texts, not {params.stop!r}")
    if not is_list(params.stop_token_ids):
        raise ValueError(
            f"stop_token_ids must be a tuple of token ids, not {params.stop_token_ids!r}"
        )
    pairs = params.logit_bias
    if not is_list(pairs) or not all(is_list(pair) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"logit_bias must be a tuple of pairs of a token id and a number, not {pairs!r}"
        )


def _check_grammar(grammar: Grammar | None) -> None:
    if grammar is None:
        return
    if not isinstance(grammar, Grammar):
        raise ValueError(f"grammar must be a Grammar, not {grammar!r}")
    if grammar.kind not in get_args(GrammarKind):
        kinds = ", ".join(get_args(GrammarKind))
        raise ValueError(f"a grammar's kind must be one of {kinds}, not {grammar.kind!r}")
    if not isinstance(grammar.source, str):
        raise ValueError(f"a grammar's source must be text, not {grammar.source!r}")


def check_token_ids(name: str, token_ids: Sequence[int], vocab_size: int) -> None:
    """Refuse tokens that a model does not have.

    Raises:
        ValueError: One is no integer, or not below `vocab_size`; `name` says whose it is.
    """
    if not token_ids or (
        set(map(type, token_ids)) == {int} and min(token_ids) >= 0 and max(token_ids) < vocab_size
    ):
        return
    wrong = next(one for one in token_ids if type(one) is not int or not 0 <= one < vocab_size)
    raise ValueError(f"{name} names token {wrong!r}; this model's are 0 to {vocab_size - 1}")
