"""Our engine in a process of its own: `python -m benchmarks.engine_own MODEL`.

It answers `{"do": NAME, ...}`, a line of JSON each, with what that part measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from server_reference.config import EngineConfig

from ..answering import answer
from ..engine_peers.ours import loaded
from . import bookkeeping, costs, requests, simulated

__all__ = ["main"]


def main(model: str) -> None:
    """Load, say so, and answer until standard input ends."""
    torch.set_num_threads(1)
    given = loaded(EngineConfig(model=model))
    parts: dict[str, Callable[..., Any]] = {
        "costs": partial(costs.measure, given),
        "prefix": partial(requests.prefix, given),
        "arrival": partial(requests.arrival, given),
        "sampling": partial(requests.sampling, given),
        "speculation": partial(requests.speculation, given),
        "batching": simulated.batching,
        "goodput": simulated.goodput,
        "unused_slots": simulated.unused_slots,
        "bookkeeping": bookkeeping.bookkeeping,
    }
    print("ready", flush=True)
    answer(lambda do, **fields: parts[do](**fields))


if __name__ == "__main__":
    main(*sys.argv[1:])
