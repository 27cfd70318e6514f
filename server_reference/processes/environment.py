"""The environment of an engine's process."""

from __future__ import annotations

import os
from pathlib import Path

from ..config import EngineConfig

__all__ = ["environment"]


def environment(config: EngineConfig) -> dict[str, str]:
    """The caller's environment, with threads that do not spin.

    Two OpenMP threads on two busy cores are 5 to 40 times slower unless they wait passively.
    """
    path = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    root = Path(__file__).parents[2]
    if root.name not in ("site-packages", "dist-packages"):
        path.insert(0, str(root))  # a checkout: the child must find what we are
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "OMP_NUM_THREADS": str(config.threads),
        "MKL_NUM_THREADS": str(config.threads),
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "0",
        "KMP_BLOCKTIME": "0",
    }
