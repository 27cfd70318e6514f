"""Engines to measure: with a model, or with one that costs nothing but time on a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from time import process_time
from typing import Any

import torch

from server_reference.checkpoints.load import LoadedModel
from server_reference.config import EngineConfig
from server_reference.core import GenerateRequest, SamplingParams, SequenceUpdate
from server_reference.engine.engine import Engine
from server_reference.engine.parts import Body
from server_reference.engine.speculation import HostTexts
from server_reference.kernels import eager

from ..engine_peers.ours import loaded

__all__ = ["Clock", "Running", "StepCost", "model_free", "real"]

_TEXT = (
    b"So the cheapest token is the one that shares its step with others.\n\n"
    b"A server's main task is to find company for each; Users wait for the first one.\n"
)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class StepCost:
    """CPU seconds of a step, from what was measured of one model on one machine.

    Args:
        tokens: Numbers of tokens in a step, rising.
        seconds: What a step of each costs where contexts are short.
        per_context: What each token of a decode's context adds.
        per_pair: What each pair of a prompt's token and one that it attends to adds.
    """

    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    per_context: float
    per_pair: float

    def __call__(self, entries: list[tuple[int, int]]) -> float:
        """Of `entries`: new tokens and context length of each sequence."""
        total = self._linear(sum(new for new, _ in entries))
        for new, context in entries:
            pairs = new * (context - new) + new * new / 2
            total += self.per_context * context if new == 1 else self.per_pair * pairs
        return total

    def _linear(self, tokens: int) -> float:
        """Between two that were measured, and past the last one, along a line."""
        points = list(zip(self.tokens, self.seconds, strict=True))
        if len(points) == 1:
            return points[0][1]
        at = next((n for n, known in enumerate(self.tokens[1:], 1) if tokens <= known), -1)
        (left, low), (right, high) = points[at - 1], points[at]
        return low + (high - low) * (tokens - left) / (right - left)


class Running:
    """An engine and the requests that were given to it."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.ids = map(str, count())

    def add(self, prompt: list[int], output: int, **params: Any) -> str:
        """Queue a request whose output has `output` tokens, greedy unless said otherwise."""
        given = {"temperature": 0.0, "ignore_eos": True} | params
        id = next(self.ids)
        self.engine.add(
            GenerateRequest(
                id=id,
                tenant="t",
                prompt_token_ids=prompt,
                params=SamplingParams(max_tokens=output, **given),
            )
        )
        return id

    def step(self) -> list[SequenceUpdate]:
        updates: list[SequenceUpdate] = self.engine.step()
        wrong = [update.error for update in updates if update.error is not None]
        assert not wrong, wrong[0]
        return updates

    def until_decoding(self, rows: int) -> None:
        """Step until as many sequences get a token in one step."""
        while len(self.step()) < rows:
            assert self.engine.has_work, f"{rows} sequences never decoded together"

    def drain(self) -> None:
        """Forget everything that is under way."""
        for sequence in [*self.engine.scheduler.running.values()]:
            self.engine.abort(sequence.id)
        while self.engine.has_work:
            self.step()


def real(model: Any, config: EngineConfig) -> Running:
    """An engine that computes; `model` is loaded, and time is this process's CPU time."""
    return Running(Engine(model, config, clock=process_time))


class _NoAttention:
    """Takes the place of attention: passes the time of each step on the clock."""

    def __init__(self, cost: Callable[[list[tuple[int, int]]], float], clock: Clock) -> None:
        self._cost, self._clock = cost, clock

    def begin(self, batch: Any) -> None:
        new = (batch.query_start[1:] - batch.query_start[:-1]).tolist()
        context = batch.context_lens.tolist()
        self._clock.now += self._cost(list(zip(new, context, strict=True)))

    def __call__(self, layer: int, qkv: Any, heads: Any, cos: Any, sin: Any) -> Any:
        raise AssertionError("there is no layer")


class _NoTransformer:
    """Takes the place of a model: all sequences together write a text, over and over."""

    dtype, device, operations = torch.bfloat16, torch.device("cpu"), eager

    def __init__(self, config: Any) -> None:
        self.config = config
        self.weights = {"embedding": torch.zeros(1, dtype=self.dtype)}
        self._one_hot = torch.eye(config.vocab_size)[list(_TEXT)]
        self._at = 0

    def hidden(self, token_ids: Any, positions: Any, attend: Any, *, newest: Any = None) -> Any:
        return torch.zeros(len(token_ids), 1)

    def logits(self, hidden: Any) -> Any:
        places = torch.arange(self._at, self._at + len(hidden)) % len(_TEXT)
        self._at += len(hidden)
        return self._one_hot[places]


def model_free(
    config: EngineConfig, *, cost: Callable[[list[tuple[int, int]]], float], clock: Clock
) -> Running:
    """An engine whose steps take no time but on `clock`: scheduling is real, numbers are not."""
    tiny = loaded(EngineConfig(model="tiny"))
    measures = replace(tiny.transformer.config, max_context=1 << 16)
    transformer: Any = _NoTransformer(measures)
    model = LoadedModel(transformer, tiny.tokenizer, "none", "nothing")
    attention: Any = _NoAttention(cost, clock)
    return Running(Engine(model, config, clock=clock, body=Body(attention, None, HostTexts())))
