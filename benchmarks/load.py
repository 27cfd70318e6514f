"""How long a model takes to load: from its GGUF file, and from converted weights."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from .answering import answer
from .figures import Outcome, Progress, figure
from .processes import Worker

__all__ = ["QUICK", "Sizes", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How often a fresh process loads the model in each state of the cache."""

    first_loads: int = 3
    cached_loads: int = 5
    evicted_loads: int = 3


QUICK = Sizes(first_loads=1, cached_loads=1, evicted_loads=0)


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Load smollm2 in fresh processes, each time as the engine's process does."""
    from server_reference.checkpoints.registry import resolve

    gguf = resolve("smollm2").gguf
    assert gguf is not None
    first, cached, imports, evicted = [], [], [], []
    with _cache_with(gguf) as cache:
        for number in range(sizes.first_loads):
            progress(f"first load {number + 1} of {sizes.first_loads}")
            shutil.rmtree(cache / "weights", ignore_errors=True)
            first.append(_load(cache)[1])
        for number in range(sizes.cached_loads):
            progress(f"cached load {number + 1} of {sizes.cached_loads}")
            torch_seconds, load_seconds = _load(cache)
            imports.append(torch_seconds)
            cached.append(load_seconds)
        for number in range(sizes.evicted_loads):
            progress(f"load from disk {number + 1} of {sizes.evicted_loads}")
            _evict(cache)
            evicted.append(_load(cache)[1])
    figures = [
        figure("load from GGUF", first, "s", bar=8.0),
        figure("load from converted weights", cached, "s", bar=3.0),
        figure("import torch, not counted above", imports, "s"),
    ]
    if evicted:
        figures.append(figure("load from converted weights, read from disk", evicted, "s"))
    return Outcome(name="load", sizes=asdict(sizes), figures=figures)


@contextmanager
def _cache_with(gguf: Path) -> Iterator[Path]:
    """A cache folder that holds the model's file and nothing else."""
    with tempfile.TemporaryDirectory(prefix="bench-load-", dir=gguf.parent) as name:
        cache = Path(name)
        (cache / "smollm2").mkdir()
        shutil.copyfile(gguf, cache / "smollm2" / gguf.name)
        yield cache


def _load(cache: Path) -> tuple[float, float]:
    """Seconds that importing torch and loading took, in a fresh process."""
    extra = {"SMARTCLIENT_CACHE": str(cache)}
    with Worker("-m", "benchmarks.load", extra=extra) as process:
        torch_seconds, load_seconds = process.ask(model="smollm2")
    return torch_seconds, load_seconds


def _evict(cache: Path) -> None:
    """Ask the kernel to drop these files from memory; where it cannot be asked, nothing."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in (one for one in cache.rglob("*") if one.is_file()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _timed_load(model: str) -> tuple[float, float]:
    begun = perf_counter()
    import torch

    imported = perf_counter()
    torch.set_num_threads(1)
    from server_reference.checkpoints.load import load
    from server_reference.config import EngineConfig

    load(EngineConfig(model=model))
    return imported - begun, perf_counter() - imported


if __name__ == "__main__":
    answer(_timed_load)
