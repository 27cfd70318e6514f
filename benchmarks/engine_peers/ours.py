"""Our engine on the closed loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from server_reference.checkpoints.load import load
from server_reference.config import EngineConfig
from server_reference.core import GenerateRequest, SamplingParams
from server_reference.engine.engine import Engine

from .workload import MOST, Request

__all__ = ["Endless", "Ours", "loaded"]


class Endless:
    """A tokenizer none of whose tokens ends a text, so that every output has its length."""

    eos_token_ids: frozenset[int] = frozenset()

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def loaded(config: EngineConfig) -> Any:
    """The configured model, none of whose tokens ends a text."""
    model = load(config)
    return replace(model, tokenizer=Endless(model.tokenizer))


class Ours:
    """Our engine without its process, in its default numerics."""

    def __init__(self, model: str, threads: int) -> None:
        self._config = EngineConfig(model=model, threads=threads)
        self._model = loaded(self._config)

    def start(self, rows: int, requests: Iterator[Request]) -> None:
        blocks = rows * -(-2 * MOST // self._config.block_size) + rows
        config = replace(self._config, max_num_seqs=rows, num_blocks=blocks)
        self._engine = Engine(self._model, config)
        self._requests, self._ids = requests, count()
        for _ in range(rows):
            self._add()

    def step(self) -> int:
        made = 0
        for update in self._engine.step():
            assert update.error is None, update.error
            made += 1
            if update.finish_reason is not None:
                self._add()
        return made

    def _add(self) -> None:
        request = next(self._requests)
        limit = min(request.output, self._engine.capacity - len(request.prompt))
        params = SamplingParams(max_tokens=limit, temperature=0, ignore_eos=True)
        self._engine.add(
            GenerateRequest(
                id=str(next(self._ids)),
                tenant="t",
                prompt_token_ids=request.prompt,
                params=params,
            )
        )
