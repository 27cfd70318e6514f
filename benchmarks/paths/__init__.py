"""The fixed paths whose instructions `--gate` counts, each in a fresh process.

A path is a function that prepares what it needs and returns its step. It imports nothing
else than what it counts, takes its time from a clock that stands, and draws no chance, so
that two runs of it count the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

__all__ = ["CALIBRATION", "PATHS", "WARM_UP", "Path", "prepare"]

WARM_UP = 20
"""Steps before those that are counted: lazy imports, caches, specialised bytecode."""


@dataclass(frozen=True, slots=True)
class Path:
    """One path.

    Args:
        name: Its module and function below this package.
        steps: How many are counted.
        what: One step, in words.
    """

    name: str
    steps: int
    what: str


CALIBRATION = "calibration.plain_python"

_ALL = (
    Path(CALIBRATION, 200, "calls, dicts, generators, JSON; nothing of ours"),
    Path("wire.sse_burst", 10, "decode a burst of 200 server-sent events"),
    Path("wire.anthropic_event", 500, "read one Messages event"),
    Path("wire.openai_event", 500, "read one Chat Completions chunk"),
    Path("wire.openai_whole", 500, "read one whole Chat Completions reply"),
    Path("net.http1_reply", 500, "parse one HTTP/1.1 reply of 12 header fields"),
    Path("net.pool", 1000, "queue a call, hand a connection over, release and take it"),
    Path("policies.retry", 200, "a 529 with Retry-After, the wait, a 200, without I/O"),
    Path("budgets.reserve_and_settle", 500, "a reservation and its settlement in memory"),
    Path("budgets.call_under_one", 200, "all that a budget adds to a call, its count included"),
    Path("tokens.count_chat", 5, "count a chat of 200 messages, 100 KB, none seen before"),
    Path(
        "cache.place_10kb",
        20,
        "read a chat of 10 KB that was sent before, place its marks, write them",
    ),
    Path("cache.place_100kb", 10, "the same with 100 KB"),
    Path("cache.place_1mb", 5, "the same with 1 MB"),
    Path("client.unary_call", 100, "one call of the blocking Client over loopback"),
    Path("client.streamed_call", 20, "one streamed call with 100 text events in one burst"),
    Path("server.scheduler_step", 32, "schedule and commit one token for 64 sequences"),
    Path("server.prefix_match", 50, "hash and find a prefix of 600 tokens"),
    Path("server.detokenizer", 20, "64 tokens into text, with stop strings"),
)
PATHS = {path.name: path for path in _ALL}


def prepare(name: str) -> Callable[[], object]:
    """Import and set up the path called `name`; its step."""
    module, _, function = name.rpartition(".")
    step: Callable[[], object] = getattr(import_module(f"{__name__}.{module}"), function)()
    return step
