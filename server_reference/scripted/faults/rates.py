"""Faults by chance: a share of the replies, the same ones for the same seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Any

from ..given import check_kind
from ..ops import Script
from ..request import Received
from .pieces import UnfitError
from .presets import PresetFault
from .registry import fault

__all__ = ["RandomFaults", "faults_at"]


class RandomFaults:
    """Breaks each reply by one fault at most; which, the seed and the request's number tell."""

    def __init__(self, faults: Sequence[tuple[PresetFault, float]], *, seed: int) -> None:
        self._faults = [one for one, _ in faults]
        self._ends = list(accumulate(rate for _, rate in faults))
        self._seed = seed

    def pick(self, number: int) -> PresetFault | None:
        """The fault for the request of this number; `None` leaves it whole."""
        # A text as the seed is hashed: neighbours and other processes draw what is theirs.
        drawn = Random(f"{self._seed} {number}").random()
        pairs = zip(self._faults, self._ends, strict=True)
        return next((one for one, end in pairs if drawn < end), None)

    def apply(self, script: Script, received: Received) -> Script:
        """The script, broken or not; a reply that cannot be broken so stays whole."""
        one = self.pick(received.number)
        if one is None:
            return script
        try:
            return one.apply(script, received)
        except UnfitError:
            return script


def faults_at(rates: Mapping[str, float | Mapping[str, Any]], *, seed: int = 0) -> RandomFaults:
    """Faults by chance, for `scripted(..., faults=[faults_at({"reset_after": 0.1}, seed=7)])`.

    Args:
        rates: Name of a fault → share of the replies, 0 to 1; or an object with `rate` and the
            fault's parameters. Together at most 1, since a reply has one fault at most.
        seed: The same seed breaks the same requests.

    Raises:
        ValueError: A name or parameter is unknown, or a rate is no share.
        TypeError: A value is of another type.
    """
    check_kind("faults_at: rates", rates, Mapping)
    check_kind("faults_at: seed", seed, int)
    made: list[tuple[PresetFault, float]] = []
    for name, given in rates.items():
        parameters = dict(given) if isinstance(given, Mapping) else {"rate": given}
        if "rate" not in parameters:
            raise ValueError(f"faults_at: {name} needs a rate, a share of the replies from 0 to 1")
        rate = parameters.pop("rate")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise ValueError(f"faults_at: the rate of {name} must be 0 to 1, not {rate}")
        made.append((fault(name, **parameters), float(rate)))
    total = math.fsum(rate for _, rate in made)
    if total > 1 + 1e-9:
        raise ValueError(
            f"faults_at: the rates add up to {total:g}, but a reply has one fault at most; "
            "lower them to 1 together"
        )
    return RandomFaults(made, seed=seed)
