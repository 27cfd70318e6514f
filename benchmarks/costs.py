"""What a call and a streamed event cost a client, in CPU time, beside other clients."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from statistics import median

from .figures import Figure, Progress
from .peers import ASYNC_PEERS, PEERS
from .processes import Worker, cores, running_upstream

__all__ = ["CostSizes", "cost_figures"]

_SHORT = 10  # a long stream has as many times the events of a short one
_CROWDS = (200, 1000)  # calls in flight


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSizes:
    """Rounds, in each of which every peer does one batch of each kind.

    Args:
        calls: Calls that are not streamed, in one batch.
        crowd_calls: As many for each call in flight, where there are many.
        bursts: Streams in one batch of those whose events come in one write.
        burst_events: Text events of such a stream; a second batch has a tenth of them.
        spaced_events: The same for a stream whose events come one by one, 1 ms apart.
    """

    rounds: int = 7
    calls: int = 430
    crowd_calls: int = 3
    bursts: int = 5
    burst_events: int = 400
    spaced_events: int = 200


@dataclass(slots=True)
class _Round:
    """What a peer is asked for, each question with a number of its own."""

    sizes: CostSizes
    numbers: count[int] = field(default_factory=lambda: count(1))
    num_calls: int = 0

    def of(self, peer: Worker, *, is_async: bool) -> dict[str, float]:
        """CPU seconds per call and per event, by kind."""
        sizes = self.sizes
        if is_async:
            return {
                _crowded(crowd): self._cost(peer, crowd * sizes.crowd_calls, in_flight=crowd)
                / (crowd * sizes.crowd_calls)
                for crowd in _CROWDS
            }
        return {
            "call": self._cost(peer, sizes.calls) / sizes.calls,
            "event, burst": self._per_event(peer, sizes.bursts, "burst", sizes.burst_events),
            "event, spaced": self._per_event(peer, 1, "spaced", sizes.spaced_events),
        }

    def _per_event(self, peer: Worker, calls: int, model: str, size: int) -> float:
        """What each further event costs: long streams less short ones."""
        short = size // _SHORT
        longer = self._cost(peer, calls, model, size)
        shorter = self._cost(peer, calls, model, short)
        return (longer - shorter) / (calls * (size - short))

    def _cost(
        self, peer: Worker, calls: int, model: str | None = None, size: int = 0, **more: int
    ) -> float:
        first = next(self.numbers)
        self.numbers = count(first + calls)
        self.num_calls += calls
        return float(peer.ask(first=first, calls=calls, model=model, size=size, **more))


def cost_figures(sizes: CostSizes, progress: Progress) -> list[Figure]:
    """Let every peer do its batches in turn; the client on one core, the server on another."""
    server_core, client_core = cores()
    costs: dict[str, dict[str, list[float]]] = {}
    rounds = _Round(sizes)
    with ExitStack() as stack:
        url, upstream = stack.enter_context(running_upstream(server_core))
        peers = {
            name: stack.enter_context(Worker("-m", "benchmarks.peers", url, name, core=client_core))
            for name in (*PEERS, *ASYNC_PEERS)
        }
        for number in range(sizes.rounds + 1):
            progress(f"costs, round {number} of {sizes.rounds}, the first one to warm up")
            for name, peer in peers.items():
                for kind, cost in rounds.of(peer, is_async=name in ASYNC_PEERS).items():
                    kept = costs.setdefault(kind, {}).setdefault(name, [])
                    kept += [cost] if number else []
        _, counted = upstream.ask()
    if counted != rounds.num_calls:
        raise RuntimeError(f"{rounds.num_calls} calls were made, and the server counted {counted}")
    return [*_ratios(costs), *_times(costs)]


def _crowded(crowd: int) -> str:
    return f"call, {crowd:,} in flight"


_OURS, _OURS_ASYNC, _OTHER = "smartclient, chat", "smartclient async, chat", "aiohttp and json"

# Kind, whose cost, divided by whose, at most.
_BARS = [
    ("call", _OURS, "socket and json", 4.0),
    ("call", _OURS, "httpx and json", 0.3),
    ("call", _OURS, "openai", 0.09),
    *((_crowded(crowd), _OURS_ASYNC, _OTHER, 0.75) for crowd in _CROWDS),
    ("event, burst", _OURS, "socket and json", 0.7),
    ("event, burst", _OURS, "openai", 0.05),
    ("event, burst", "smartclient, messages", "anthropic", 0.15),
    ("event, spaced", _OURS, "socket and json", 1.1),
    ("event, spaced", _OURS, "openai", 0.25),
    ("event, spaced", "smartclient, messages", "anthropic", 0.6),
    *(
        (kind, f"{sdk}, wrapped", sdk, bar)
        for sdk in ("openai", "anthropic")
        for kind, bar in (("call", 0.85), ("event, burst", 1.0), ("event, spaced", 1.0))
    ),
]
_CROWD_BAR = 1.5


def _ratios(costs: Mapping[str, Mapping[str, list[float]]]) -> list[Figure]:
    found = [
        _ratio(f"{kind}: {one} / {other}", costs[kind][one], costs[kind][other], bar)
        for kind, one, other, bar in _BARS
    ]
    few, many = (costs[_crowded(crowd)][_OURS_ASYNC] for crowd in _CROWDS)
    name = f"{_OURS_ASYNC}: call, {_CROWDS[1]:,} in flight / {_CROWDS[0]}"
    return [*found, _ratio(name, many, few, _CROWD_BAR)]


def _ratio(name: str, some: list[float], others: list[float], bar: float) -> Figure:
    """Of two medians, whose samples were taken in turn."""
    ratio = median(some) / median(others)
    return Figure(name=name, value=ratio, unit="ratio", bar=bar, runs=len(some))


def _times(costs: Mapping[str, Mapping[str, list[float]]]) -> list[Figure]:
    return [
        Figure(name=f"{kind}: {name}", value=median(each) * 1e6, unit="us", runs=len(each))
        for kind, by_name in costs.items()
        for name, each in by_name.items()
    ]
