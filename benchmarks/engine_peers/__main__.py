"""One engine on the closed loop: `python -m benchmarks.engine_peers NAME MODEL THREADS`.

It answers `{"do": "start", ...}` and `{"do": "advance", "tokens": n}`, a line of JSON each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any, Protocol

from ..answering import answer
from .workload import Request, closed_loop

__all__ = ["NAMES", "main"]


class Loop(Protocol):
    """An engine that keeps a number of requests running."""

    def start(self, rows: int, requests: Iterator[Request]) -> None: ...
    def step(self) -> int:
        """Compute one step; output tokens that it made."""
        ...


def _ours(model: str, threads: int, **options: Any) -> Loop:
    import torch

    from .ours import Ours

    torch.set_num_threads(threads)
    return Ours(model, threads, **options)


def _transformers(model: str, threads: int, **options: Any) -> Loop:
    from .with_transformers import Transformers

    return Transformers(model, threads, **options)


def _llama(model: str, threads: int, **options: Any) -> Loop:
    from .with_llama import LlamaCpp

    return LlamaCpp(model, threads, **options)


NAMES: dict[str, Callable[..., Loop]] = {
    "server_reference": _ours,
    "transformers": _transformers,
    "llama.cpp": _llama,
}


class _Answers:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def reply(self, do: str, **given: Any) -> Any:
        if do == "start":
            self._loop.start(given["rows"], closed_loop(**given))
            return None
        assert do == "advance", do
        return self._advance(given["tokens"])

    def _advance(self, tokens: int) -> list[float]:
        """Output tokens that were made, at least `tokens`, and CPU seconds."""
        begun, made = process_time(), 0
        while made < tokens:
            made += self._loop.step()
        return [made, process_time() - begun]


def main(name: str, model: str, threads: str, options: str = "{}") -> None:
    """Load, say so, and answer until standard input ends."""
    loop = NAMES[name](model, int(threads), **json.loads(options))
    print("ready", flush=True)
    answer(_Answers(loop).reply)


if __name__ == "__main__":
    main(*sys.argv[1:])
