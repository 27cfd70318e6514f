"""The values that pass between the gateway, the API and the engine."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

__all__ = [
    "MAX_GRAMMAR_LENGTH",
    "EngineStats",
    "FinishReason",
    "GenerateRequest",
    "Grammar",
    "GrammarKind",
    "SamplingParams",
    "Sequence",
    "SequenceRecord",
    "SequenceUpdate",
    "StageTimes",
    "StepRecord",
    "TokenLogprob",
    "WaitingRecord",
]

FinishReason = Literal["stop", "stop_sequence", "length", "error", "refused", "deadline", "invalid"]
"""`stop`: the model ended its turn. `stop_sequence`: a caller's stop string or token came.
`refused`: too many waited before it, or it waited too long; nothing was computed.
`deadline`: its caller's deadline passed. `invalid`: it asks for what cannot be run, or its
output can go no further under its grammar."""

GrammarKind = Literal["json_schema", "regex", "choice", "lark"]

MAX_GRAMMAR_LENGTH = 2**17
"""Characters of a grammar: what takes half a second to compile, as a rule less than half of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """What an output must match, from its first token to its end.

    Args:
        source: A JSON schema as JSON text; a regular expression; the choices as a JSON
            array of strings; or a grammar in llguidance's dialect of Lark, in which a
            control token stands as `<|name|>`.
    """

    kind: GrammarKind
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen, and when to stop.

    Penalties come first, then bias and grammar, then temperature, `min_p`, `top_k`, `top_p`.

    Args:
        max_tokens: New tokens at most; 0 computes the prompt and stops.
        temperature: 0 takes the likeliest token.
        top_k: Candidates kept, likeliest first; `None` keeps all.
        top_p: Candidates kept until their probabilities reach this sum, the one that
            crosses it included.
        min_p: Candidates kept whose probability is at least this share of the likeliest's.
        repetition_penalty: Divides the positive and multiplies the negative logits of tokens
            that the prompt or the output holds; 1 changes none.
        frequency_penalty: Taken off a token's logit for each time the output holds it.
        presence_penalty: Taken off once if the output holds it.
        logit_bias: Added to the logits of these token ids.
        seed: Makes the draws repeat; `None` takes one from the engine.
        logprobs: How many of the likeliest tokens are told with each output token, besides
            itself; `None` tells nothing. Probabilities are those before all of the above.
        prompt_logprobs: The same of the prompt's tokens, the first one left out.
        stop: Strings that end the output; none of their characters is returned.
        stop_token_ids: Tokens that end it; they are no part of its text.
        min_tokens: No token that would end the output is drawn before so many.
        ignore_eos: The model's end-of-turn tokens do not end the output.
        grammar: What the output must match.
    """

    max_tokens: int
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    ignore_eos: bool = False
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """One sequence to run, as the front sends it to an engine.

    Args:
        id: Unique while it runs.
        tenant: Whose it is; prefixes are shared only within a tenant, and tenants get
            equal shares of what is computed.
        prompt_token_ids: At least one token.
        cache_salt: Prefixes are shared only among equal ones, within the tenant.
        priority: Higher ones start first and make room last, among a tenant's own.
        deadline: Seconds from now after which nobody waits for the output any more.
    """

    id: str
    tenant: str
    prompt_token_ids: list[int]
    params: SamplingParams
    cache_salt: str = ""
    priority: int = 0
    deadline: float | None = None


# What follows are tuples because a step makes hundreds of them, where msgspec may be missing.
class TokenLogprob(NamedTuple):
    """A token's natural log-probability, and those of the likeliest in its place."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class StageTimes(NamedTuple):
    """Seconds a sequence spent in each stage of the engine; `None`: not reached."""

    queue: float | None = None
    prefill: float | None = None
    decode: float | None = None


class SequenceUpdate(NamedTuple):
    """What one step added to one sequence.

    Args:
        text: New text; whole characters only, and never part of a stop string.
        token_ids: New output tokens, the end-of-turn token left out.
        num_output_tokens: Output tokens so far.
        num_cached_tokens: Prompt tokens that were read from the prefix cache.
        times: In the first update and in the last one.
        finish_reason: `None` while it runs.
        stop_sequence: The caller's stop string that came.
        error: Why it ended, when `finish_reason` is `error` or `invalid`; or `refused` although
            there was room to wait.
        logprobs: Of each of `token_ids`, where they were asked for.
        prompt_logprobs: Of the prompt's tokens but the first, in the first update.
    """

    id: str
    text: str = ""
    token_ids: Seq[int] = ()
    num_output_tokens: int = 0
    num_cached_tokens: int = 0
    times: StageTimes = StageTimes()
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None
    error: str | None = None
    logprobs: Seq[TokenLogprob] = ()
    prompt_logprobs: Seq[TokenLogprob] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """The books of an engine at one moment."""

    num_running: int
    num_queued: int
    num_blocks: int
    num_free_blocks: int
    num_cached_blocks: int
    steps: int
    preemptions: int
    prefix_tokens_queried: int
    prefix_tokens_hit: int
    num_queued_tokens: int = 0
    draft_tokens_proposed: int = 0
    draft_tokens_accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRecord:
    """What one sequence computed in a step, for `smartclient-server explain`.

    Args:
        start: Position of its first token in this step.
        num_tokens: Tokens from there on.
        num_drafts: How many of these are guesses that the step checks.
        blocks: KV blocks that it took in this step.
        num_shared: Blocks that the prefix cache had for it when it started.
        why: In words, such as `decode` or `prefill 257-512 of 4,000`.
    """

    id: str
    tenant: str
    start: int
    num_tokens: int
    num_drafts: int = 0
    blocks: tuple[int, ...] = ()
    num_shared: int = 0
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRecord:
    """A sequence that got nothing in a step: `num_tokens` are missing, and `why` it waited."""

    id: str
    tenant: str
    num_tokens: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step, for `smartclient-server explain`.

    Args:
        number: Counted from 1.
        at: Seconds from the engine's start to the step's.
        duration: Seconds it took; `None` while it runs.
        num_waiting: Sequences that got nothing; `waiting` has the first 32 of them.
        preempted: Ids of those that lost their blocks in it.
    """

    number: int
    at: float
    duration: float | None
    scheduled: tuple[SequenceRecord, ...] = ()
    num_waiting: int = 0
    waiting: tuple[WaitingRecord, ...] = ()
    preempted: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine, with how far it has come.

    `num_computed` counts tokens whose keys and values are in the cache once every step
    that was scheduled has run; `target` is how many there are to compute. The scheduler
    closes the gap; there are no phases. `num_pending` output tokens are being sampled by a
    step in flight and not known yet. `drafts` are guesses at what follows, to be checked in
    the next step. `block_keys` are the prefix-cache keys of its full blocks as far as they
    were asked for, and `num_published` counts its blocks that the cache knows. `row` is its
    place in per-sequence arrays while it runs.

    `start_by` and `expires_at` are when it is given up, waiting for the first time or at
    all, by the engine's clock. Of its last start, `num_shared` counts the blocks that it found
    and `started_with` the output tokens that it had. `passed_over` counts the starts of others
    while it waited for blocks.
    """

    id: str
    tenant: str
    prompt_token_ids: list[int]
    params: SamplingParams
    arrival: int
    cache_salt: str = ""
    priority: int = 0
    output_token_ids: list[int] = field(default_factory=list)
    block_table: list[int] = field(default_factory=list)
    block_keys: list[bytes] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    num_published: int = 0
    num_computed: int = 0
    num_pending: int = 0
    num_cached: int = 0
    preemptions: int = 0
    row: int = -1
    start_by: float | None = None
    expires_at: float | None = None
    num_shared: int = 0
    started_with: int = 0
    passed_over: int = 0

    @property
    def num_outputs(self) -> int:
        """Output tokens, those that a step in flight samples included."""
        return len(self.output_token_ids) + self.num_pending

    @property
    def num_known(self) -> int:
        """Tokens that are known: all but those that a step in flight samples."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    @property
    def target(self) -> int:
        """Tokens whose keys and values the next sample needs, drafts left out."""
        return len(self.prompt_token_ids) + self.num_outputs

    def tokens(self, start: int, stop: int) -> list[int]:
        """Known token ids at positions `start` to `stop`, prompt and output in one line."""
        num_prompt = len(self.prompt_token_ids)
        if stop <= num_prompt:
            return self.prompt_token_ids[start:stop]
        if start >= num_prompt:
            return self.output_token_ids[start - num_prompt : stop - num_prompt]
        return self.prompt_token_ids[start:] + self.output_token_ids[: stop - num_prompt]
