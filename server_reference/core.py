"""The values that pass between the gateway, the API and the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "EngineStats",
    "FinishReason",
    "GenerateRequest",
    "SamplingParams",
    "Sequence",
    "SequenceUpdate",
    "StageTimes",
]

FinishReason = Literal["stop", "stop_sequence", "length", "error", "refused"]
"""`stop`: the model ended its turn. `stop_sequence`: a caller's stop string came.
`refused`: too many waited before it; nothing was computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen, and when to stop.

    Args:
        max_tokens: New tokens at most; 0 computes the prompt and stops.
        temperature: 0 takes the likeliest token.
        top_k: Candidates kept, likeliest first; `None` keeps all.
        top_p: Candidates kept until their probabilities reach this sum, the one that
            crosses it included.
        seed: Makes the draws repeat; `None` takes one from the engine.
        stop: Strings that end the output; none of their characters is returned.
    """

    max_tokens: int
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """One sequence to run, as the front sends it to an engine.

    Args:
        id: Unique while it runs.
        tenant: Whose it is; prefixes are shared only within a tenant.
        prompt_token_ids: At least one token.
    """

    id: str
    tenant: str
    prompt_token_ids: list[int]
    params: SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Seconds a sequence spent in each stage of the engine; `None`: not reached."""

    queue: float | None = None
    prefill: float | None = None
    decode: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceUpdate:
    """What one step added to one sequence.

    Args:
        text: New text; whole characters only, and never part of a stop string.
        num_output_tokens: Output tokens so far, the end-of-turn token left out.
        num_cached_tokens: Prompt tokens that were read from the prefix cache.
        finish_reason: `None` while it runs.
        stop_sequence: The caller's stop string that came.
        error: Why it ended, when `finish_reason` is `error`.
    """

    id: str
    text: str = ""
    num_output_tokens: int = 0
    num_cached_tokens: int = 0
    times: StageTimes = StageTimes()
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None
    error: str | None = None


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


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine, with how far it has come.

    `num_computed` counts tokens whose keys and values are in the cache; `target` is how
    many there are to compute. The scheduler closes the gap; there are no phases.
    `block_keys` are the prefix-cache keys of its full blocks as far as they were asked
    for, and `num_published` counts its blocks that the cache knows.
    """

    id: str
    tenant: str
    prompt_token_ids: list[int]
    params: SamplingParams
    arrival: int
    output_token_ids: list[int] = field(default_factory=list)
    block_table: list[int] = field(default_factory=list)
    block_keys: list[bytes] = field(default_factory=list)
    num_published: int = 0
    num_computed: int = 0
    num_cached: int = 0
    preemptions: int = 0

    @property
    def target(self) -> int:
        """Tokens whose keys and values the next sample needs."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    def tokens(self, start: int, stop: int) -> list[int]:
        """Token ids at positions `start` to `stop`, prompt and output in one line."""
        num_prompt = len(self.prompt_token_ids)
        if stop <= num_prompt:
            return self.prompt_token_ids[start:stop]
        if start >= num_prompt:
            return self.output_token_ids[start - num_prompt : stop - num_prompt]
        return self.prompt_token_ids[start:] + self.output_token_ids[: stop - num_prompt]
