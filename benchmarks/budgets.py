"""What a reservation costs in Redis and in SQLite, beside others; and that none is overspent."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from .budget_peers import IN_FLIGHT, PEERS
from .figures import Figure, Outcome, Progress, figure
from .processes import Worker, cores, on_core

__all__ = ["QUICK", "Sizes", "run", "running_redis"]

_RATIOS = (
    ("redis", "incrby", None),
    ("redis", "limits", 1.1),
    ("redis, nested", "limits, nested", 0.75),
    ("redis, async", "incrby, async", None),
)
"""Ours, whom it is compared with, and the bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Reservations in one batch of a peer, and in the storm of all processes together.

    Args:
        limit: How many of the storm there is room for.
    """

    rounds: int = 7
    batch: int = 2000
    processes: int = 8
    storm: int = 10_000
    limit: int = 7000


QUICK = Sizes(rounds=1, batch=IN_FLIGHT, processes=2, storm=100, limit=70)


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Every peer takes its turn in each round; then all processes reserve at once."""
    server_core, client_core = cores()
    costs: dict[str, list[float]] = {name: [] for name in PEERS}
    with TemporaryDirectory() as folder, running_redis(Path(folder), server_core) as url:
        file = str(Path(folder) / "budgets.db")
        where = {name: file if name == "sqlite" else url for name in PEERS}
        with ExitStack() as stack:
            peers = {
                name: stack.enter_context(_peer(name, where[name], client_core)) for name in PEERS
            }
            for number in range(sizes.rounds + 1):
                progress(f"round {number} of {sizes.rounds}, the first one to warm up")
                for name, peer in peers.items():
                    cost = peer.ask(number=sizes.batch) / sizes.batch
                    if number:
                        costs[name].append(cost)
        progress(f"{sizes.storm} reservations of {sizes.processes} processes")
        storms = {name: _storm(name, where[name], sizes) for name in ("redis", "sqlite")}
    return Outcome(
        name="budgets",
        sizes=asdict(sizes),
        figures=[*_costs(costs), *_storms(storms, sizes)],
        facts={f"{name}: had room": granted for name, (granted, _) in storms.items()},
    )


@contextmanager
def running_redis(folder: Path, core: int | None = None) -> Iterator[str]:
    """The URL of a redis-server on this machine, which keeps nothing; it ends with the block."""
    if shutil.which("redis-server") is None:
        raise RuntimeError("budgets needs redis-server; on Debian: apt install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with on_core(core):
        server = subprocess.Popen(
            [*command, "--dir", str(folder)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
    try:
        _wait_for(port, server)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20.0
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("redis-server did not start") from error
            time.sleep(0.01)


def _peer(name: str, where: str, core: int | None = None) -> Worker:
    return Worker("-m", "benchmarks.budget_peers", name, where, core=core)


def _storm(name: str, where: str, sizes: Sizes) -> tuple[int, float]:
    """How many of all reservations had room, and the seconds until all were answered."""
    share = sizes.storm // sizes.processes
    with ExitStack() as stack, ThreadPoolExecutor(sizes.processes) as pool:
        peers = [stack.enter_context(_peer(name, where)) for _ in range(sizes.processes)]
        for peer in peers:
            peer.ask(number=1)  # all of them have started
        answers = list(pool.map(lambda peer: peer.ask(number=share, limit=sizes.limit), peers))
    return sum(granted for granted, _ in answers), max(seconds for _, seconds in answers)


def _costs(costs: Mapping[str, list[float]]) -> list[Figure]:
    found = [
        Figure(
            name=f"CPU per reservation: {ours} / {theirs}",
            value=median(costs[ours]) / median(costs[theirs]),
            unit="ratio",
            bar=bar,
            runs=len(costs[ours]),
        )
        for ours, theirs, bar in _RATIOS
    ]
    return [
        *found,
        *(
            figure(f"CPU per reservation: {name}", values, "us", scale=1e6)
            for name, values in costs.items()
        ),
    ]


def _storms(storms: Mapping[str, tuple[int, float]], sizes: Sizes) -> list[Figure]:
    found = []
    for name, (granted, seconds) in storms.items():
        who = f"{sizes.storm:,} from {sizes.processes} processes, {name}"
        over = float(abs(granted - sizes.limit))
        found.append(Figure(name=f"{who}: over or under the limit", value=over, unit="", bar=0.0))
        found.append(Figure(name=f"{who}: per second", value=sizes.storm / seconds, unit="/s"))
    return found
