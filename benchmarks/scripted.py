"""What a request and a streamed event cost the scripted server, and whether its memory grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .figures import Figure, Outcome, Progress, figure
from .processes import Worker, cores

__all__ = ["QUICK", "Sizes", "run"]

_APIS = ("anthropic", "openai")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is asked for; `words` is the number of text events in a streamed answer.

    `journalled` requests fill the journal; as many more as `later` must not need more memory.
    """

    connections: int = 16
    words: int = 64
    rounds: int = 7
    unary: int = 2000
    streams: int = 600
    starts: int = 5
    journalled: int = 20_000
    later: int = 100_000


QUICK = Sizes(rounds=1, unary=64, streams=64, starts=1, journalled=320, later=320)


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Storm a server of the default settings: its journal and its verdict look on."""
    server_core, client_core = cores()
    costs: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    with (
        Worker("-m", "benchmarks.scripted_server", str(sizes.words), core=server_core) as server,
        Worker("-m", "benchmarks.storm", server.read(), core=client_core) as storm,
    ):
        for number in range(sizes.rounds + 1):
            progress(f"round {number} of {sizes.rounds}, the first one to warm up")
            for api in _APIS:
                _measure(server, storm, sizes, api, (costs, rates) if number else ({}, {}))
        flat = _memory_ratio(server, storm, sizes, progress)
    starts = []
    for number in range(sizes.starts):
        progress(f"start {number + 1} of {sizes.starts}")
        with Worker("-m", "benchmarks.scripted_server", "1", core=server_core) as server:
            server.read()
            starts.append(server.ask()["start"])
    return Outcome(
        name="scripted", sizes=asdict(sizes), figures=_figures(costs, rates, flat, starts)
    )


def _measure(
    server: Worker,
    storm: Worker,
    sizes: Sizes,
    api: str,
    found: tuple[dict[str, list[float]], dict[str, list[float]]],
) -> None:
    """One round of an API, its CPU time and its rate added to `found`."""
    for name, kind, requests, model in (
        ("whole", "request", sizes.unary, "any"),
        ("streamed", "event", sizes.streams, "any"),
        ("streamed, a write for each", "event", sizes.streams // 4, "split"),
    ):
        before = server.ask()["cpu"]
        num_events, seconds = _ask(storm, requests, sizes, api, model, stream=kind == "event")
        cpu = server.ask()["cpu"] - before
        things = num_events or requests
        found[0].setdefault(f"{api}, {name}: CPU per {kind}", []).append(cpu / things)
        found[1].setdefault(f"{api}, {name}: {kind}s per second", []).append(things / seconds)


def _memory_ratio(server: Worker, storm: Worker, sizes: Sizes, progress: Progress) -> Figure:
    """The most memory ever used after many further requests, relative to before them."""
    progress(f"{sizes.journalled} requests that fill the journal")
    _ask(storm, sizes.journalled, sizes)
    before = server.ask()["kib"]
    progress(f"{sizes.later} further requests")
    _ask(storm, sizes.later, sizes)
    ratio = server.ask()["kib"] / before
    name = f"memory after {sizes.later:,} more requests / before"
    return Figure(name=name, value=ratio, unit="ratio", bar=1.05)


def _ask(
    storm: Worker,
    requests: int,
    sizes: Sizes,
    api: str = "anthropic",
    model: str = "any",
    *,
    stream: bool = False,
) -> tuple[int, float]:
    """How many events came, and the seconds that it took."""
    num_events, seconds = storm.ask(
        api=api, requests=requests, connections=sizes.connections, stream=stream, model=model
    )
    return num_events, seconds


def _figures(
    costs: Mapping[str, list[float]],
    rates: Mapping[str, list[float]],
    flat: Figure,
    starts: list[float],
) -> list[Figure]:
    """A core that answers 1,500 requests a second has 667 us for each, and so with events."""
    found = []
    for name, values in costs.items():
        bar = None if "a write" in name else 1e6 / (60_000 if name.endswith("event") else 1500)
        found.append(figure(name, values, "us", scale=1e6, bar=bar))
    found += [figure(name, values, "/s") for name, values in rates.items()]
    return [*found, flat, figure("start, in a fresh process", starts, "ms", scale=1e3, bar=100.0)]
