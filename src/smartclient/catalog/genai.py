"""The prices of the package `genai-prices`, read as ours.

Source: pydantic/genai-prices, `genai_prices/types.py` (tiers begin above `start`, and hold for
the whole request; variants are chosen by the context of a request).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from .facts import Mode, ModelFacts, Prices, Tier
from .lookup import Catalog
from .records import flaw_of

__all__ = ["laid_over"]

_PROVIDERS = {"anthropic": ("5m", "1h"), "openai": ("30m", None)}
"""Whose models are taken, and the times to live that their two prices of writing are for."""

_FIELDS = {"input": "input_mtok", "output": "output_mtok", "cache_read": "cache_read_mtok"}
_WRITES = ("cache_write_mtok", "cache_write_1h_mtok")
_BESIDES = {"web_searches_kcount", "storage_searches_kcount"}  # of tools, not of tokens
_SAME = {"default": "service_tier", "fast": "service_tier"}  # as usual; another word for priority


def laid_over(catalog: Catalog) -> Catalog:
    """Another catalog, with their prices of today in place of those of `catalog`.

    Raises:
        ImportError: The package is not there.
    """
    try:
        import genai_prices
        from genai_prices.data_snapshot import get_snapshot
    except ImportError as error:
        raise ImportError(
            "the prices of genai-prices need that package; install smartclient[prices]"
        ) from error
    records = {record.name: record for record in catalog}
    taken = {name.lower() for record in catalog for name in (record.name, *record.aliases)}
    source = f"genai-prices {genai_prices.__version__}"
    for provider in get_snapshot().providers:
        if provider.id in _PROVIDERS:
            for model in provider.models:
                if facts := _facts(model, provider.id, records, taken, source):
                    records[facts.name] = facts
    return Catalog(list(records.values()))


def _facts(
    model: Any, provider: str, records: dict[str, ModelFacts], taken: set[str], source: str
) -> ModelFacts | None:
    """The record of one of their models, or `None` where it is not priced by text tokens."""
    prices = _prices(model, provider)
    known = next((one for one in records.values() if model.id in (one.name, *one.aliases)), None)
    if prices is None or (known is None and model.id.lower() in taken):
        return None
    base = known or ModelFacts(
        name=model.id, provider=provider, context_window=model.context_window
    )
    aliases = [name for name in _equals(model.match) if name.lower() not in taken | {base.name}]
    if base.prices is not None:
        prices = replace(prices, geos=base.prices.geos, regions=base.prices.regions)
    facts = replace(
        base,
        aliases=(*base.aliases, *dict.fromkeys(aliases)),
        prices=prices,
        as_of=None,
        source=" over ".join(filter(None, (source, base.source))),
    )
    if flaw_of(facts):
        return None
    taken.update(name.lower() for name in (facts.name, *facts.aliases))
    return facts


def _prices(model: Any, provider: str) -> Prices | None:
    now = datetime.now(UTC)
    standard = _rates(model.get_prices(now), provider)
    if standard is None:
        return None
    modes: dict[str, dict[str, Mode]] = {"processing": {}, "service_tier": {}, "speed": {}}
    for variant in model.price_variants or ():
        if len(variant.when) != 1:
            continue  # a price for two conditions at once has no place among ours
        [(kind, name)] = variant.when.items()
        found = _rates(model.get_prices(now, variant.when), provider)
        if kind in modes and _SAME.get(name) != kind and found is not None:
            modes[kind][name] = Mode(**found)
    return Prices(
        **standard,
        batch=modes["processing"].get("batch"),
        service_tiers=modes["service_tier"],
        speeds=modes["speed"],
    )


def _rates(price: Any, provider: str) -> dict[str, Any] | None:
    """The fields that prices and modes share, or `None` where more than text is priced."""
    told = {key: value for key, value in vars(price).items() if value is not None}
    if set(told) - _BESIDES - set(_FIELDS.values()) - set(_WRITES):
        return None
    starts = sorted({tier.start for value in told.values() for tier in getattr(value, "tiers", ())})
    rates = _at(told, 0, provider)
    tiers = [Tier(above=start, **_at(told, start, provider)) for start in starts]
    return {**rates, "tiers": tuple(tiers)}


def _at(told: dict[str, Any], start: int, provider: str) -> dict[str, Any]:
    rates: dict[str, Any] = {
        ours: _price(told[theirs], start) for ours, theirs in _FIELDS.items() if theirs in told
    }
    written = {
        ttl: _price(told[theirs], start)
        for ttl, theirs in zip(_PROVIDERS[provider], _WRITES, strict=True)
        if ttl is not None and theirs in told
    }
    return {**rates, "cache_write": written}


def _price(value: Any, start: int) -> Decimal:
    reached = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= start]
    return Decimal(reached[-1] if reached else getattr(value, "base", value))


def _equals(match: Any) -> Iterator[str]:
    """The names that they give in full, not by a pattern."""
    if hasattr(match, "equals"):
        yield match.equals
    for clause in getattr(match, "or_", ()):
        yield from _equals(clause)
