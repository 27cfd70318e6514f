"""The engine beside its peers, and by itself: speed, sharing, fairness to those who wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from .engine_loops import Loop, loops
from .figures import Figure, Outcome, Progress, figure
from .plot import svg
from .processes import ROOT, Worker

__all__ = ["PLOT", "QUICK", "Sizes", "run"]

PLOT = ROOT / "docs" / "explanation" / "goodput.svg"

_LOOPS = (
    Loop(rows=1, tokens=36, mean=64, sigma=0.0, floors={"transformers": 2.5, "llama.cpp": 0.65}),
    Loop(rows=8, tokens=400, mean=150, sigma=0.8, floors={"transformers": 1.35, "llama.cpp": 1.15}),
    Loop(rows=32, tokens=960, mean=150, sigma=0.8, floors={"transformers": 1.2, "llama.cpp": 1.4}),
)
_COSTS = {"rows": [1, 2, 4, 8, 16, 32], "chunks": [64, 128, 256], "long": 1024}
_PREFIX = {"prefix_tokens": 2000, "suffix_tokens": 32, "requests": 16, "colds": 3}
_ARRIVAL = {"rows": 8, "output": 800, "prompt_tokens": 4000, "after": 32}
_SAMPLING = {"rows": 32, "steps": 8, "rounds": 4}
_SPECULATION = {"draft_tokens": 8, "output": 96, "rounds": 6}
_BATCHING = {"requests": 512, "slots": 32, "mu": 4.0, "sigma": 1.0, "most": 1024}
_BOOKKEEPING = {"sequences": 256, "steps": 100}
_UNUSED = {"slots": 32, "mean": 300, "sigma": 0.8, "steps": 200}
_GOODPUT = {
    "rates": [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5],
    "seconds": 120.0,
    "ttft": 2.0,
    "itl": 0.4,
    "mean": 150,
    "sigma": 0.8,
    "most": 512,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The model, and what each part measures.

    Args:
        peers: Whether transformers and llama.cpp run beside our engine.
        slices: Measurements of each loop.
        vocabulary: First token id that a prompt has, and the one after the last.
        plot: Where the plot is written; `None`: nowhere.
    """

    model: str = "smollm2"
    peers: bool = True
    loops: tuple[Loop, ...] = _LOOPS
    slices: int = 3
    vocabulary: tuple[int, int] = (100, 40_000)
    parts: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {
            "costs": _COSTS,
            "prefix": _PREFIX,
            "arrival": _ARRIVAL,
            "sampling": _SAMPLING,
            "speculation": _SPECULATION,
            "batching": _BATCHING,
            "bookkeeping": _BOOKKEEPING,
            "unused_slots": _UNUSED,
            "goodput": _GOODPUT,
        }
    )
    plot: str | None = str(PLOT)
    seed: int = 0


QUICK = Sizes(
    model="tiny",
    peers=False,
    loops=(Loop(rows=2, tokens=6, mean=8, sigma=0.8, floors={}),),
    slices=1,
    vocabulary=(32, 120),
    parts={
        "costs": {"rows": [1, 2], "chunks": [16, 32], "long": 64},
        "prefix": {"prefix_tokens": 96, "suffix_tokens": 8, "requests": 2, "colds": 1},
        "arrival": {"rows": 2, "output": 30, "prompt_tokens": 300, "after": 4},
        "sampling": {"rows": 2, "steps": 2, "rounds": 1},
        "speculation": {"draft_tokens": 4, "output": 12, "rounds": 1},
        "batching": _BATCHING | {"requests": 64, "slots": 8},
        "bookkeeping": {"sequences": 16, "steps": 5},
        "unused_slots": {"slots": 8, "mean": 300, "sigma": 0.8, "steps": 20},
        "goodput": _GOODPUT | {"rates": [0.5, 5.0], "seconds": 5.0},
    },
    plot=None,
)


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """The loops first, while nothing else is loaded; then our engine by itself."""
    figures, facts = loops(
        sizes.loops,
        progress,
        model=sizes.model,
        peers=sizes.peers,
        slices=sizes.slices,
        vocabulary=sizes.vocabulary,
        seed=sizes.seed,
    )
    found: dict[str, Any] = {}
    with Worker("-m", "benchmarks.engine_own", sizes.model) as worker:
        worker.read()
        for name, given in sizes.parts.items():
            progress(name.replace("_", " "))
            cost = {"cost": found["costs"]} if name in ("batching", "goodput") else {}
            found[name] = worker.ask(do=name, seed=sizes.seed, **given, **cost)
    figures += _figures(found, sizes.parts)
    drafts = {name: found["speculation"][name] for name in ("drafts", "same outputs")}
    facts |= {"step costs": found["costs"], "speculation": drafts}
    facts |= {name: found[name] for name in ("batching", "goodput")}
    if sizes.plot is not None:
        Path(sizes.plot).write_text(_plot(sizes.parts["goodput"], found["goodput"]))
    return Outcome(name="engine", sizes=asdict(sizes), figures=figures, facts=facts)


def _figures(found: Mapping[str, Any], sizes: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    batching = {name: one["seconds"] for name, one in found["batching"].items()}
    yield Figure(
        name="continuous / static batches: speed",
        value=batching["static"] / batching["continuous"],
        unit="ratio",
        floor=3.0,
    )
    yield Figure(
        name="continuous / static batches of one shape: speed",
        value=batching["one shape"] / batching["continuous"],
        unit="ratio",
    )
    steps = {name: one["steps"] for name, one in found["batching"].items()}
    yield Figure(
        name="continuous / static batches: steps",
        value=steps["static"] / steps["continuous"],
        unit="ratio",
    )
    yield from _prefix(found["prefix"])
    yield from _arrival(found["arrival"])
    sampling = {name: median(times) for name, times in found["sampling"].items()}
    yield Figure(
        name="temperature 0.8, top_p 0.95 / greedy: step",
        value=sampling["sampled"] / sampling["greedy"],
        unit="ratio",
        bar=1.1,
        runs=len(found["sampling"]["greedy"]),
    )
    yield from _speculation(found["speculation"]["times"])
    yield from _bookkeeping(found["bookkeeping"], sizes["bookkeeping"]["sequences"])
    yield Figure(
        name="KV slots held but unused", value=found["unused_slots"] * 100, unit="%", bar=4.0
    )
    for name in list(found["goodput"])[1:]:
        values = found["goodput"][name]
        yield Figure(name=f"goodput at its best: {name}", value=max(values), unit="/s")


def _prefix(times: Mapping[str, list[float]]) -> Iterator[Figure]:
    ratio = median(times["warm"]) / median(times["cold"])
    yield Figure(
        name="TTFT with a cached prefix / cold",
        value=ratio,
        unit="ratio",
        bar=0.15,
        runs=len(times["warm"]),
    )
    yield figure("TTFT, cold", times["cold"], "ms CPU", scale=1e3)


def _arrival(found: Mapping[str, Any]) -> Iterator[Figure]:
    """The longest gap relative to the median of all, and to that of the gaps without a prompt."""
    gaps, alone = found["gaps"], found["alone"]
    yield Figure(
        name="a long prompt beside decodes: longest ITL / median",
        value=max(gaps) / median(gaps),
        unit="ratio",
        bar=2.0,
        runs=len(gaps),
    )
    yield Figure(
        name="a long prompt beside decodes: longest ITL / median without it",
        value=max(gaps) / median(alone),
        unit="ratio",
        runs=len(gaps),
    )
    yield Figure(name="a long prompt beside decodes: TTFT", value=found["ttft"], unit="s CPU")
    yield Figure(name="a long prompt beside decodes: steps", value=found["steps"], unit="steps")


def _speculation(times: Mapping[str, list[float]]) -> Iterator[Figure]:
    drafts = max(int(name.rpartition(", ")[2]) for name in times)
    floors = {"copying": 1.3, "nothing repeats": 0.97, "repeats by chance": None}
    for task, floor in floors.items():
        without, with_drafts = times[f"{task}, 0"], times[f"{task}, {drafts}"]
        ratios = [one / other for one, other in zip(without, with_drafts, strict=True)]
        yield Figure(
            name=f"n-gram speculation, {task}: speed",
            value=median(ratios),
            unit="ratio",
            floor=floor,
            runs=len(ratios),
        )


def _bookkeeping(times: Mapping[str, list[float]], sequences: int) -> Iterator[Figure]:
    for (part, values), bar in zip(times.items(), (0.5, 1.5), strict=True):
        yield figure(f"{sequences} sequences: {part}", values, "ms CPU", scale=1e3, bar=bar)


def _plot(sizes: Mapping[str, Any], lines: Mapping[str, list[float]]) -> str:
    limits = f"TTFT at most {sizes['ttft']:g} s, ITL at most {sizes['itl']:g} s"
    return svg(
        lines,
        at=sizes["rates"],
        title=f"Requests that met both limits: {limits}",
        x_label="requests that arrive per second (Poisson)",
        y_label="requests per second that met them",
    )
