"""Serving on more GPUs than there are: real schedulers, and steps as long as a roofline says.

`scripts/bench fleet` runs the committed sizes; `python -m benchmarks.fleet --help` other ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from server_reference.command_numbers import at_least_one, positive
from server_reference.public_models import PUBLIC_MODELS
from server_reference.roofline import CHIPS, Roofline

from .engine_own.fleet import Arrival, Fleet, poisson, read_trace, summary
from .figures import Figure, Outcome, Progress
from .plot import svg
from .processes import ROOT

__all__ = ["PLOTS", "QUICK", "Sizes", "main", "run"]

PLOTS = ROOT / "docs" / "explanation"

_COLUMNS = ("requests/s", "goodput", "tokens/s", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99")
_ABOUT = "Simulate many engines, each on a chip of its own, with the real schedulers."
_RATE = "requests a second, or how many times as fast a trace comes; may be repeated"
_TRACE = (
    "CSV with TIMESTAMP, ContextTokens and GeneratedTokens, as the public Azure LLM traces have"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is served, on what, and how much of it comes.

    Args:
        rates: Requests a second, in all.
        seconds: For so long requests come.
        skip: Seconds at the beginning that are not counted.
        prompt: Mean tokens of a prompt; lengths are lognormal.
        most: Tokens that a prompt, or an output, has at most.
        ttft: Most that a good request waits for its first token, in seconds.
        itl: Most that it waits for any further one.
        bandwidth: Share of a chip's bandwidth that kernels attain.
        operations: Likewise of its operations.
        plots: Folder of the plots; `None`: none are drawn.
    """

    model: str = "Llama-3-8B"
    chips: tuple[str, ...] = ("H100", "H200")
    gpus: int = 8
    rates: tuple[float, ...] = (30.0, 60.0, 90.0, 120.0, 140.0, 160.0, 180.0, 200.0)
    seconds: float = 12.0
    skip: float = 4.0
    prompt: int = 1000
    output: int = 250
    sigma: float = 0.8
    most: int = 4000
    ttft: float = 1.0
    itl: float = 0.05
    bandwidth: float = 0.8
    operations: float = 0.55
    plots: str | None = str(PLOTS)
    seed: int = 0


QUICK = Sizes(
    model="SmolLM2-135M", chips=("A100",), gpus=2, rates=(20.0, 40.0), seconds=1.0, skip=0.2,
    prompt=100, output=10, plots=None,
)  # fmt: skip


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Every chip at every rate."""
    found: dict[str, list[dict[str, float]]] = {}
    for chip in sizes.chips:
        for rate in sizes.rates:
            progress(f"{sizes.gpus} × {chip} at {rate:g} requests/s")
            served = _serve(_arrivals(rate, sizes), chip, sizes)
            found.setdefault(f"{sizes.gpus} × {chip}", []).append(served)
    if sizes.plots is not None:
        for name, plot in _plots(found, sizes):
            (Path(sizes.plots) / f"fleet-{name}.svg").write_text(plot)
    figures = [
        Figure(name=f"goodput at its best: {name}", value=_best(served), unit="/s")
        for name, served in found.items()
    ]
    return Outcome(name="fleet", sizes=asdict(sizes), figures=figures, facts={"fleets": found})


def _arrivals(rate: float, sizes: Sizes) -> list[Arrival]:
    return poisson(
        rate=rate,
        seconds=sizes.seconds,
        prompt=sizes.prompt,
        output=sizes.output,
        sigma=sizes.sigma,
        most=sizes.most,
        seed=sizes.seed,
    )


def _best(served: Sequence[Mapping[str, float]]) -> float:
    return max(one["goodput"] for one in served)


def _serve(arrivals: Sequence[Arrival], chip: str, sizes: Sizes) -> dict[str, float]:
    slower = CHIPS[chip].at(bandwidth=sizes.bandwidth, operations=sizes.operations)
    roofline = Roofline(config=PUBLIC_MODELS[sizes.model], chip=slower)
    fleet = Fleet(roofline, gpus=sizes.gpus)
    served = fleet.serve(arrivals)
    return summary(served, fleet.gaps, ttft=sizes.ttft, itl=sizes.itl, skip=sizes.skip)


def _plots(
    found: Mapping[str, Sequence[Mapping[str, float]]], sizes: Sizes
) -> Iterator[tuple[str, str]]:
    """Names of files, and what they hold."""
    at = sizes.rates
    what = f"{sizes.model} in bf16, prompts of {sizes.prompt} and outputs of {sizes.output} tokens"
    goodput = {name: [one["goodput"] for one in served] for name, served in found.items()}
    yield (
        "goodput",
        svg(
            {"all that come": at, **goodput},
            at=at,
            title=f"{what}: TTFT within {sizes.ttft:g} s, no gap over {sizes.itl * 1e3:g} ms",
            x_label="requests/s that come",
            y_label="requests/s that meet both limits",
        ),
    )
    for latency, unit, scale in (("TTFT", "s", 1.0), ("ITL", "ms", 1e3)):
        lines = {
            f"{name}, {share}": [one[f"{latency} {share}"] * scale for one in served]
            for name, served in found.items()
            for share in ("p50", "p99")
        }
        title = f"{what}: {latency}"
        yield (
            latency.lower(),
            svg(lines, at=at, title=title, x_label="requests/s", y_label=f"{latency} ({unit})"),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve what comes at random, or a trace, and print a row for each chip and rate."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    chips, trace = options.pop("chip") or ["H200"], options.pop("trace")
    rates = options.pop("rate") or ([1.0] if trace else Sizes().rates)
    sizes = Sizes(**options)
    try:
        coming = [read_trace(trace, speed=at) if trace else _arrivals(at, sizes) for at in rates]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for rate, arrivals in zip(rates, coming, strict=True):
        if not arrivals or arrivals[-1].at <= sizes.skip:
            parser.error(f"at {rate:g}, no request comes after the {sizes.skip:g} s of --skip")
    print("  ".join(("chip", "asked", *_COLUMNS)))
    for chip in chips:
        for rate, arrivals in zip(rates, coming, strict=True):
            served = _serve(arrivals, chip, sizes)
            print("  ".join([chip, f"{rate:g}", *(f"{served[name]:.4g}" for name in _COLUMNS)]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=_ABOUT)
    default = Sizes()
    parser.add_argument("--model", choices=PUBLIC_MODELS, default=default.model)
    parser.add_argument("--chip", action="append", choices=CHIPS, help="may be repeated (H200)")
    parser.add_argument("--rate", action="append", type=positive, help=_RATE)
    parser.add_argument("--trace", type=Path, metavar="FILE", help=_TRACE)
    for name in ("gpus", "prompt", "output", "most"):
        parser.add_argument(f"--{name}", type=at_least_one, default=getattr(default, name))
    for name in ("seconds", "ttft", "itl", "bandwidth", "operations"):
        parser.add_argument(f"--{name}", type=positive, default=getattr(default, name))
    parser.add_argument("--skip", type=float, default=default.skip)
    return parser


if __name__ == "__main__":
    sys.exit(main())
