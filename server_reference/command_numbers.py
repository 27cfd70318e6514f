"""Numbers on command lines, refused with words: for `type=` of `argparse`."""

from __future__ import annotations

import argparse
import math

__all__ = ["at_least_one", "positive"]


def at_least_one(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"it must be at least 1, not {number}")
    return number


def positive(text: str) -> float:
    """A finite number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"it must be above 0 and finite, not {text}")
    return number
