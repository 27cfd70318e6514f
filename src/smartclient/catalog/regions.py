"""What a cloud charges in a region: every price of a model times one factor."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

from msgspec.structs import replace

from .exact import times
from .facts import Mode, Prices, Rates

__all__ = ["in_region"]

_Priced = TypeVar("_Priced", bound=Rates)


def in_region(prices: Prices | None, region: str) -> Prices | None:
    """`prices` as they are in `region`, or `None` where that is not known."""
    factor = None if prices is None else prices.regions.get(region)
    if prices is None or factor is None:
        return None
    return replace(
        _times(prices, factor),
        tiers=tuple(_times(tier, factor) for tier in prices.tiers),
        batch=None if prices.batch is None else _mode(prices.batch, factor),
        service_tiers={name: _mode(mode, factor) for name, mode in prices.service_tiers.items()},
        speeds={name: _mode(mode, factor) for name, mode in prices.speeds.items()},
        regions={},
    )


def _mode(mode: Mode, factor: Decimal) -> Mode:
    """Its own prices only: its multiplier is on standard ones, which have risen already."""
    tiers = None if mode.tiers is None else tuple(_times(tier, factor) for tier in mode.tiers)
    return replace(_times(mode, factor), tiers=tiers)


def _times(rates: _Priced, factor: Decimal) -> _Priced:
    return replace(
        rates,
        input=None if rates.input is None else times(rates.input, factor),
        output=None if rates.output is None else times(rates.output, factor),
        cache_read=None if rates.cache_read is None else times(rates.cache_read, factor),
        cache_write={ttl: times(price, factor) for ttl, price in rates.cache_write.items()},
    )
