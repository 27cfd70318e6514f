"""Our engine and its peers on the same closed loop, in turn; each peer at its best."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from server_reference.downloads.cache import cache_dir

from .engine_peers.environment import interpreter, versions
from .figures import Figure, Progress
from .processes import Worker

__all__ = ["Loop", "loops"]

_OURS = "server_reference"
_PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
_ACTIVE = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "infinity"}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
_QUIET = _OFFLINE | {"TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Requests without end, `rows` of them at a time, and what is measured of them.

    Args:
        tokens: Output tokens of one measurement.
        mean: Of prompts and outputs; with `sigma` 0 of the one prompt, whose output is endless.
        sigma: Of the logarithm of both.
        floors: Least speed relative to each peer.
    """

    rows: int
    tokens: int
    mean: int
    sigma: float
    floors: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Way:
    """How an engine is run; `text` says it in a result."""

    name: str
    threads: int = 1
    waiting: Mapping[str, str] = field(default_factory=lambda: _PASSIVE)
    options: Mapping[str, Any] = field(default_factory=dict)
    text: str = "1 thread"

    @contextmanager
    def worker(self, model: str, python: Path | None) -> Iterator[Worker]:
        count = str(self.threads)
        extra = _QUIET | self.waiting | {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
        arguments = (self.name, model, count, json.dumps(dict(self.options)))
        with Worker(
            "-m", "benchmarks.engine_peers", *arguments, extra=extra, python=python
        ) as worker:
            worker.read()
            yield worker


def loops(
    given: Sequence[Loop],
    progress: Progress,
    *,
    model: str,
    peers: bool,
    slices: int,
    vocabulary: tuple[int, int],
    seed: int,
) -> tuple[list[Figure], dict[str, Any]]:
    """The figures of all loops, and facts about how the peers ran."""
    facts: dict[str, Any] = {}
    figures: list[Figure] = []
    with ExitStack() as stack:
        progress(f"loading {_OURS}")
        workers = {_OURS: stack.enter_context(_Way(_OURS).worker(model, None))}
        start = {"vocabulary": list(vocabulary), "seed": seed}
        if peers:
            facts["versions"] = versions()
            python, file = interpreter(progress), _file(model)
            for name, ways in _peers().items():
                best = _best(ways, file, python, start, progress)
                facts[f"{name} at its best"] = best.text
                workers[name] = stack.enter_context(best.worker(file, python))
        for loop in given:
            figures += _run(loop, workers, start, slices, progress)
    return figures, facts


def _file(model: str) -> str:
    from server_reference.checkpoints.registry import resolve

    gguf = resolve(model).gguf
    assert gguf is not None, f"{model} has no GGUF file, which the peers run"
    return str(gguf)


def _peers() -> dict[str, list[_Way]]:
    converted = {"converted": str(cache_dir() / "peers" / "bf16")}
    ways: dict[str, list[_Way]] = {}
    for name, options in (("transformers", converted), ("llama.cpp", {"unified": False})):
        ways[name] = [
            _Way(name, 1, _PASSIVE, options, "1 thread"),
            _Way(name, 2, _PASSIVE, options, "2 threads, passive waiting"),
            _Way(name, 2, _ACTIVE, options, "2 threads, active waiting"),
        ]
    one_buffer = {"unified": True}
    ways["llama.cpp"].append(_Way("llama.cpp", 1, _PASSIVE, one_buffer, "1 thread, one KV buffer"))
    return ways


def _best(
    ways: list[_Way], model: str, python: Path, start: Mapping[str, Any], progress: Progress
) -> _Way:
    """The way that takes the least CPU time for a short loop of 8 rows."""
    taken = []
    for way in ways:
        progress(f"trying {way.name}: {way.text}")
        with way.worker(model, python) as worker:
            worker.ask(do="start", rows=8, mean=64, sigma=0.0, **start)
            worker.ask(do="advance", tokens=16)
            taken.append(worker.ask(do="advance", tokens=96)[1])
    return ways[taken.index(min(taken))]


def _run(
    loop: Loop,
    workers: Mapping[str, Worker],
    start: Mapping[str, Any],
    slices: int,
    progress: Progress,
) -> list[Figure]:
    """Advance all workers through the same requests, slice by slice."""
    taken: dict[str, list[float]] = {name: [] for name in workers}
    for worker in workers.values():
        worker.ask(do="start", rows=loop.rows, mean=loop.mean, sigma=loop.sigma, **start)
        worker.ask(do="advance", tokens=2 * loop.rows)
    for number in range(slices):
        for name, worker in workers.items():
            progress(f"{loop.rows} rows, slice {number + 1} of {slices}: {name}")
            made, seconds = worker.ask(do="advance", tokens=loop.tokens)
            taken[name].append(seconds / made)
    return list(_figures(loop, taken))


def _figures(loop: Loop, taken: Mapping[str, list[float]]) -> Iterator[Figure]:
    ours = taken[_OURS]
    for name, theirs in taken.items():
        if name != _OURS:
            ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
            yield Figure(
                name=f"decode, {loop.rows} rows: speed / {name}",
                value=median(ratios),
                unit="ratio",
                floor=loop.floors[name],
                runs=len(ratios),
            )
    for name, times in taken.items():
        yield Figure(
            name=f"decode, {loop.rows} rows: {name}",
            value=median(times) * 1e3,
            unit="ms CPU per token",
            runs=len(times),
        )
