"""What connections cost and whether they are reused: CPU time, counts, memory, cold bursts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles

from .costs import CostSizes, cost_figures
from .figures import Figure, Outcome, Progress
from .holding import SCENARIOS
from .processes import Worker, cores, running_upstream

__all__ = ["QUICK", "Sizes", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of each.

    Args:
        costs: Of what calls and events cost.
        held: Idle open streams whose memory is measured, and those before them.
        cold_calls: Calls of one cold burst.
        cold_rounds: Bursts with HTTP/2, and as many with HTTP/1.1.
        scenarios: Of `holding`, which take 12 s.
    """

    costs: CostSizes = field(default_factory=CostSizes)
    held: tuple[int, int] = (1000, 100)
    cold_calls: int = 100
    cold_rounds: int = 5
    scenarios: tuple[str, ...] = tuple(SCENARIOS)


QUICK = Sizes(
    costs=CostSizes(rounds=1, calls=2, crowd_calls=1, bursts=1, burst_events=20, spaced_events=20),
    held=(10, 1),
    cold_calls=5,
    cold_rounds=1,
    scenarios=("10 openai streams",),
)


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Measure one after another, on the same two cores."""
    with _certificate() as (certificate, ca_file):
        figures = [
            *cost_figures(sizes.costs, progress),
            *_reuse(sizes, progress, certificate, ca_file),
            *(
                _memory(sizes, progress, certificate if is_tls else None, ca_file)
                for is_tls in (False, True)
            ),
            *_cold(sizes, progress),
        ]
    return Outcome(name="connections", sizes=asdict(sizes), figures=figures)


@contextmanager
def _certificate() -> Iterator[tuple[str, str]]:
    """Files with a server's certificate for this machine, and with what clients have to trust."""
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as folder:
        certificate, ca_file = Path(folder) / "server.pem", Path(folder) / "ca.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
        authority.cert_pem.write_to_path(str(ca_file))
        yield str(certificate), str(ca_file)


def _reuse(sizes: Sizes, progress: Progress, certificate: str, ca_file: str) -> list[Figure]:
    """Connections that each scenario takes, all of them at once: most of it is waiting."""
    progress("connections of a few calls")
    cases = [(name, tls) for name in sizes.scenarios for tls in (None, certificate)]
    with ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(lambda case: _connections(*case, ca_file), cases))


def _connections(name: str, certificate: str | None, ca_file: str) -> Figure:
    with (
        running_upstream(certificate=certificate) as (url, upstream),
        _holder(url, name, ca_file) as client,
    ):
        made = client.ask()
        connections, counted = upstream.ask()
    if counted != made:
        raise RuntimeError(f"{name}: {made} calls were made, and the server counted {counted}")
    shown = f"{name}, {_over(certificate)}"
    return Figure(name=shown, value=connections, unit="connections", bar=1)


def _holder(url: str, scenario: str, ca_file: str) -> Worker:
    _, core = cores()
    trusted = {"SSL_CERT_FILE": ca_file}
    return Worker("-m", "benchmarks.holding", url, scenario, core=core, extra=trusted)


def _over(certificate: str | None) -> str:
    return "plain" if certificate is None else "TLS"


def _memory(sizes: Sizes, progress: Progress, certificate: str | None, ca_file: str) -> Figure:
    """What each further idle stream adds to the memory of its process."""
    progress(f"memory of idle streams, {_over(certificate)}")
    count, before = sizes.held
    server_core, _ = cores()
    with (
        running_upstream(server_core, certificate=certificate) as (url, upstream),
        _holder(url, "held", ca_file) as client,
    ):
        first = client.ask(count=before)
        last = client.ask(count=count)
        connections, _ = upstream.ask()
    if connections != count + before:
        raise RuntimeError(f"{count + before} open streams had {connections} connections")
    name = f"memory of an idle open stream, {_over(certificate)}"
    bar = 12.0 if certificate is None else 60.0
    return Figure(name=name, value=(last - first) / count / 1024, unit="KiB", bar=bar)


def _cold(sizes: Sizes, progress: Progress) -> list[Figure]:
    """First calls at once, far away: handshakes with HTTP/2, and the latest first events."""
    server_core, client_core = cores()
    latest: dict[str, list[float]] = {"auto": [], "1.1": []}
    handshakes: dict[str, list[int]] = {"auto": [], "1.1": []}
    with Worker("-m", "benchmarks.scripted_server", "4", "tls", core=server_core) as server:
        url, ca_file = server.read().split()
        for number in range(sizes.cold_rounds):
            progress(f"cold bursts, round {number + 1} of {sizes.cold_rounds}")
            for version, found in latest.items():
                taken, made = _burst(url, ca_file, version, sizes.cold_calls, client_core)
                found.append(quantiles(taken, n=20)[-1])
                handshakes[version].append(made)
    calls, rounds = sizes.cold_calls, sizes.cold_rounds
    ratio = median(latest["auto"]) / median(latest["1.1"])
    name = f"cold burst of {calls} calls: "
    times = [
        Figure(name=f"{name}p95, {version}", value=median(each) * 1e3, unit="ms", runs=rounds)
        for version, each in latest.items()
    ]
    most = max(handshakes["auto"])
    return [
        Figure(name=f"{name}handshakes", value=most, unit="connections", bar=2, runs=rounds),
        Figure(name=f"{name}p95, auto / 1.1", value=ratio, unit="ratio", bar=0.5, runs=rounds),
        *times,
        Figure(name=f"{name}handshakes, 1.1", value=max(handshakes["1.1"]), unit="connections"),
    ]


def _burst(
    url: str, ca_file: str, version: str, calls: int, core: int | None
) -> tuple[list[float], int]:
    """Seconds until each call's first event, in a new process; and connections it made."""
    port = url.rpartition(":")[2]
    trusted = {"SSL_CERT_FILE": ca_file}
    with (
        Worker("-m", "benchmarks.cold_burst", "relay", port) as relay,
        Worker(
            "-m", "benchmarks.cold_burst", "client", url, version, core=core, extra=trusted
        ) as client,
    ):
        far = f"https://127.0.0.1:{relay.read()}"
        return client.ask(url=far, calls=calls), relay.ask()
