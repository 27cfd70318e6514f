"""What a call and a streamed event cost a client, in CPU time, beside other clients."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median

from .figures import Figure, Outcome, Progress
from .peers import ASYNC_PEERS, PEERS
from .processes import Worker, cores, running_upstream
from .replies import TEXT

__all__ = ["QUICK", "Sizes", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rounds, in each of which every peer does one batch of each kind.

    Args:
        calls: Calls that are not streamed, in one batch.
        bursts: Streams in one batch of those whose events come in one write.
        burst_events: Text events of such a stream; a second batch has a tenth of them.
        spaced_events: The same for a stream whose events come one by one, 1 ms apart.
    """

    rounds: int = 5
    calls: int = 100
    bursts: int = 5
    burst_events: int = 400
    spaced_events: int = 200


QUICK = Sizes(rounds=1, calls=2, bursts=1, burst_events=20, spaced_events=20)

_SHORT = 10  # a long stream has as many times the events of a short one
_UNITS = {"call": "CPU per call", "burst": "CPU per event, burst", "spaced": "per event, spaced"}


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Let every peer do its batches in turn; the client on one core, the server on another."""
    server_core, client_core = cores()
    costs: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        url = stack.enter_context(running_upstream(server_core))
        peers = {
            name: stack.enter_context(Worker("-m", "benchmarks.peers", url, name, core=client_core))
            for name in (*PEERS, *ASYNC_PEERS)
        }
        for name, peer in peers.items():
            progress(f"warming up {name}")
            _round(peer, sizes)
            costs[name] = {kind: [] for kind in _UNITS}
        for number in range(sizes.rounds):
            progress(f"round {number + 1} of {sizes.rounds}")
            for name, peer in peers.items():
                for kind, cost in _round(peer, sizes).items():
                    costs[name][kind].append(cost)
    return Outcome(name="client", sizes=asdict(sizes), figures=_figures(costs))


def _round(peer: Worker, sizes: Sizes) -> dict[str, float]:
    """CPU seconds per call and per event."""
    burst, spaced = sizes.burst_events, sizes.spaced_events
    return {
        "call": _cost(peer, sizes.calls, None, 0, expected=len(TEXT)) / sizes.calls,
        "burst": _per_event(peer, sizes.bursts, "burst", burst),
        "spaced": _per_event(peer, 1, "spaced", spaced),
    }


def _per_event(peer: Worker, calls: int, model: str, size: int) -> float:
    """What each further event costs: long streams less short ones."""
    short = size // _SHORT
    longer = _cost(peer, calls, model, size, expected=size)
    shorter = _cost(peer, calls, model, short, expected=short)
    return (longer - shorter) / (calls * (size - short))


def _cost(peer: Worker, calls: int, model: str | None, size: int, *, expected: int) -> float:
    brought, seconds = peer.ask(calls=calls, model=model, size=size)
    if brought != calls * expected:
        raise RuntimeError(f"a batch brought {brought} instead of {calls} x {expected}")
    return float(seconds)


def _figures(costs: Mapping[str, Mapping[str, list[float]]]) -> list[Figure]:
    return [
        Figure(
            name=f"{name}: {unit}",
            value=median(costs[name][kind]) * 1e6,
            unit="us",
            runs=len(costs[name][kind]),
        )
        for kind, unit in _UNITS.items()
        for name in costs
    ]
