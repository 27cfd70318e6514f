"""The other end of a `Worker`: answers each line of JSON until the input ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["answer"]


def answer(reply: Callable[..., Any]) -> None:
    """Call `reply` with each question's fields as keywords, and print what it returns."""
    for line in sys.stdin:
        print(json.dumps(reply(**json.loads(line))), flush=True)
