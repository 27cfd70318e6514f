"""Our engine and its peers on the same closed loop, in turn; each peer at its best."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from server_reference.downloads.cache import cache_dir

from .engine_peers.environment import interpreter, versions
from .figures import Figure, Progress
from .processes import Worker

__all__ = ["Loop", "loops"]

_OURS = "server_reference"
_TRIAL_PROMPT = 16  # tokens
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
    start = {"vocabulary": list(vocabulary), "seed": seed}
    best: list[dict[str, _Way]] = [{} for _ in given]
    python: Path | None = None
    file = ""
    if peers:
        facts["versions"] = versions()
        python, file = interpreter(progress), _file(model)
        for name, ways in _peers(file).items():
            chosen = _best(ways, file, python, given, start, progress)
            for its, way in zip(best, chosen, strict=True):
                its[name] = way
        facts["peers at their best"] = [
            {"rows": loop.rows} | {name: way.text for name, way in its.items()}
            for loop, its in zip(given, best, strict=True)
        ]
    with ExitStack() as stack:
        progress(f"loading {_OURS}")
        ours = stack.enter_context(_Way(_OURS).worker(model, None))
        started: dict[tuple[str, str], Worker] = {}
        for loop, its in zip(given, best, strict=True):
            workers = {_OURS: ours}
            for name, way in its.items():
                key = name, way.text
                if key not in started:
                    started[key] = stack.enter_context(way.worker(file, python))
                workers[name] = started[key]
            figures += _run(loop, workers, start, slices, progress)
    return figures, facts


def _file(model: str) -> str:
    from server_reference.checkpoints.registry import resolve

    gguf = resolve(model).gguf
    assert gguf is not None, f"{model} has no GGUF file, which the peers run"
    return str(gguf)


def _peers(file: str) -> dict[str, list[_Way]]:
    about = Path(file).stat()
    key = f"{file}|{about.st_size}|{about.st_mtime_ns}"
    folder = cache_dir() / "peers" / f"bf16-{sha256(key.encode()).hexdigest()[:12]}"
    ways: dict[str, list[_Way]] = {}
    options: dict[str, dict[str, Any]] = {
        "transformers": {"converted": str(folder)},
        "llama.cpp": {"unified": False},
    }
    for name, given in options.items():
        ways[name] = [
            _Way(name, 1, _PASSIVE, given, "1 thread"),
            _Way(name, 2, _PASSIVE, given, "2 threads, passive waiting"),
            _Way(name, 2, _ACTIVE, given, "2 threads, active waiting"),
        ]
    one_buffer = {"unified": True}
    ways["llama.cpp"].append(_Way("llama.cpp", 1, _PASSIVE, one_buffer, "1 thread, one KV buffer"))
    return ways


def _best(
    ways: Sequence[_Way],
    model: str,
    python: Path,
    given: Sequence[Loop],
    start: Mapping[str, Any],
    progress: Progress,
) -> list[_Way]:
    """For each loop, the way that takes the least CPU time for decodes of as many rows."""
    taken = []
    for way in ways:
        progress(f"trying {way.name}: {way.text}")
        with way.worker(model, python) as worker:
            taken.append([_decode(worker, loop.rows, start) for loop in given])
    return [ways[times.index(min(times))] for times in zip(*taken, strict=True)]


def _decode(worker: Worker, rows: int, start: Mapping[str, Any]) -> float:
    """CPU seconds of a token, where all rows decode."""
    worker.ask(do="start", rows=rows, mean=_TRIAL_PROMPT, sigma=0.0, **start)
    worker.ask(do="advance", tokens=2 * rows)
    found = [worker.ask(do="advance", tokens=max(12, 3 * rows)) for _ in range(2)]
    return float(min(seconds / made for made, seconds in found))


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
