"""What a call cost: exact decimals, added up once and rounded only to be shown.

Prices are published as decimals per million tokens and go down to fractions of a
nanodollar per token, so neither binary floats nor whole microdollars hold them;
`decimal` does, and a product of tokens and a price is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import reduce
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..wire import Usage
from ..wire.usage import MOST_TOKENS
from .exact import per_million, plus, times
from .facts import Mode, ModelFacts, Prices, Rates, Tier

__all__ = ["Cost", "bounds", "check_facts", "check_usage", "cost", "rates"]

_NOTHING, _ONE = Decimal(0), Decimal(1)
_ROUNDING = Context(prec=100)

# What is served and priced as usual. `auto` is a wish: the reply says what became of it.
_STANDARD_TIERS = frozenset({None, "", "standard", "standard_only", "default", "auto"})
_STANDARD_SPEEDS = frozenset({None, "", "standard"})
_EVERYWHERE = frozenset({None, "", "global", "not_available"})
_SAME_TIER = {"fast": "priority"}  # OpenAI answers `priority` to both


class Cost(Struct, frozen=True, kw_only=True):
    """Dollars that a reply cost, exactly, and what they were for.

    Attributes:
        model: Whose prices these are.
        total: `None` as long as a part is unknown; `missing` then says which.
        uncached: For input computed and not kept; `None` where it is unknown, as in each part.
        cache_read: For input read from the prompt cache.
        cache_write: For input written to it, by time to live.
        output: For output, reasoning included.
        missing: What is not known: a price, a count, or a way to be served.
        above: The prices were those for requests of more input tokens than this.
    """

    model: str
    total: Decimal | None = None
    uncached: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Mapping[str, Decimal | None] = {}
    output: Decimal | None = None
    missing: tuple[str, ...] = ()
    above: int | None = None

    @property
    def at_least(self) -> Decimal | None:
        """What the known parts cost together; `None` where none is known."""
        if self.total is not None:
            return self.total
        parts = (self.uncached, self.cache_read, self.output, *self.cache_write.values())
        known = [part for part in parts if part is not None]
        return reduce(plus, known) if known else None

    def rounded(self, places: int = 6) -> Decimal | None:
        """The total with so many decimals; the only rounding there is."""
        if self.total is None:
            return None
        return self.total.quantize(_ONE.scaleb(-places), ROUND_HALF_EVEN, _ROUNDING)

    def __str__(self) -> str:
        if self.total is None:
            return f"unknown: {', '.join(self.missing)}"
        return f"${self.rounded():f}"


def cost(
    usage: Usage | None,
    facts: ModelFacts | None,
    *,
    service_tier: str | None = None,
    batch: bool = False,
    geo: str | None = None,
    speed: str | None = None,
) -> Cost | None:
    """What `usage` costs at the prices of `facts`; `None` where either is not there.

    A part whose price is unknown leaves the total unknown, never too small; one without
    tokens needs no price. The total is unknown too where counts cannot be, or are not final.

    Args:
        usage: Tokens of one reply.
        facts: The model that gave it, as from `model(name)`.
        service_tier: As the reply names it; `batch` means the same as the argument.
        batch: Whether it was served in a batch.
        geo: Where the request asked to be served, such as `us`.
        speed: As the reply names it, such as `fast`.

    Raises:
        TypeError: `usage` or `facts` is something else.
    """
    if usage is None or facts is None:
        return None
    check_usage(usage)
    check_facts(facts)
    faults = _faults(usage)
    if facts.prices is None:
        faults.append("prices")
    if faults or facts.prices is None or usage.input_tokens is None:
        return Cost(model=facts.name, missing=tuple(faults))
    mode, factor, unknown = _served(facts.prices, service_tier, batch=batch, geo=geo, speed=speed)
    if unknown or factor is None:
        return Cost(model=facts.name, missing=tuple(unknown))
    prices, above = _rates(facts.prices, mode, usage.input_tokens)
    found = _added(facts.name, usage, prices, factor, above)
    if usage.is_final:
        return found
    return replace(found, total=None, missing=(*found.missing, "final output tokens"))


def check_usage(usage: Any) -> None:
    """Raise for an SDK's usage, or a mapping of one, in the place of ours."""
    if not isinstance(usage, Usage):
        raise TypeError(
            f"usage must be a smartclient.wire.Usage, not {type(usage).__name__}; "
            "a report has it as report.usage"
        )


def check_facts(facts: Any) -> None:
    """Raise for a model's name in the place of its facts."""
    if not isinstance(facts, ModelFacts):
        raise TypeError(
            f"facts must be ModelFacts, not {type(facts).__name__}; "
            "smartclient.catalog.model(name) has those of a model"
        )


def rates(
    facts: ModelFacts | None,
    input_tokens: int,
    *,
    service_tier: str | None = None,
    geo: str | None = None,
    speed: str | None = None,
) -> Rates | None:
    """The prices of a request of so many input tokens, which `cost` would add up.

    `None` where they, or a way to be served, are unknown.
    """
    if facts is None or facts.prices is None:
        return None
    mode, factor, unknown = _served(facts.prices, service_tier, batch=False, geo=geo, speed=speed)
    if unknown or factor is None:
        return None
    found, _ = _rates(facts.prices, mode, input_tokens)
    return _multiplied(found, None, factor)


def bounds(facts: ModelFacts) -> tuple[int, ...]:
    """Input tokens above which a request may have other prices, rising."""
    prices = facts.prices
    if prices is None:
        return ()
    modes = [*prices.service_tiers.values(), *prices.speeds.values()]
    tiers = [*prices.tiers, *(tier for mode in modes for tier in mode.tiers or ())]
    return tuple(sorted({tier.above for tier in tiers}))


def _served(
    prices: Prices, service_tier: str | None, *, batch: bool, geo: str | None, speed: str | None
) -> tuple[Mode | None, Decimal | None, list[str]]:
    """How a call is served, what its place multiplies, and what is not known about that."""
    tier_name = _SAME_TIER.get(service_tier or "", service_tier)
    mode, unknown = _mode(prices, tier_name, batch=batch, speed=speed)
    factor = _ONE if geo in _EVERYWHERE else prices.geos.get(geo or "")
    if factor is None:
        unknown.append(f"geo {geo!r}")
    return mode, factor, unknown


def _faults(usage: Usage) -> list[str]:
    """Counts that are missing, or that cannot be."""
    faults = []
    if usage.inconsistent is not None:
        return [f"consistent counts: {usage.inconsistent}"]
    if usage.uncached is None:
        faults.append("input tokens")
    if usage.output is None:
        faults.append("output tokens")
    for name, tokens in _counts(usage):
        if not 0 <= tokens <= MOST_TOKENS:
            shown = f"over {MOST_TOKENS:,}" if tokens > 0 else f"{tokens:,}"
            faults.append(f"{name} of {shown} tokens")
    return faults


def _counts(usage: Usage) -> list[tuple[str, int]]:
    """Tokens of each part, under the name of its price."""
    counts = [
        ("input", usage.uncached or 0),
        ("cache_read", usage.cache_read or 0),
        ("output", usage.output or 0),
    ]
    if usage.cache_write:
        counts += [(f"cache_write.{ttl}", tokens) for ttl, tokens in usage.cache_write.items()]
    return counts


def _mode(
    prices: Prices, service_tier: str | None, *, batch: bool, speed: str | None
) -> tuple[Mode | None, list[str]]:
    """How the call was served, `None` as usual; and what is not known about that."""
    found: list[tuple[str, Mode | None]] = []
    if batch or service_tier == "batch":
        found.append(("batch", prices.batch))
    if service_tier not in _STANDARD_TIERS and service_tier != "batch":
        named = f"service_tier {service_tier!r}"
        found.append((named, prices.service_tiers.get(service_tier or "")))
    if speed not in _STANDARD_SPEEDS:
        found.append((f"speed {speed!r}", prices.speeds.get(speed or "")))
    unknown = [name for name, mode in found if mode is None]
    if len(found) > 1 and not unknown:
        unknown = [" with ".join(name for name, _ in found)]  # no vendor prices them together
    return (found[0][1] if found else None), unknown


def _rates(prices: Prices, mode: Mode | None, input_tokens: int) -> tuple[Rates, int | None]:
    """The prices of a request of this length, and the bound of the tier that they are of."""
    standard = _tier(prices.tiers, input_tokens)
    if mode is None:
        return standard or prices, standard.above if standard else None
    own = _tier(mode.tiers or (), input_tokens)
    if own is not None:
        return own, own.above
    if mode.tiers is None and standard is not None:
        return _multiplied(standard, None, mode.multiplier), standard.above
    return _multiplied(prices, mode, mode.multiplier), None


def _tier(tiers: tuple[Tier, ...], input_tokens: int) -> Tier | None:
    return next((tier for tier in reversed(tiers) if input_tokens > tier.above), None)


def _multiplied(standard: Rates, own: Rates | None, multiplier: Decimal | None) -> Rates:
    """Standard prices times `multiplier`, and in their place those that `own` names."""

    def price(given: Decimal | None, usual: Decimal | None) -> Decimal | None:
        if given is not None or usual is None or multiplier is None:
            return given
        return times(usual, multiplier)

    named = own or Rates()
    written = {ttl: price(None, usual) for ttl, usual in standard.cache_write.items()}
    known = {ttl: each for ttl, each in written.items() if each is not None}
    return Rates(
        input=price(named.input, standard.input),
        output=price(named.output, standard.output),
        cache_read=price(named.cache_read, standard.cache_read),
        cache_write={**known, **named.cache_write},
    )


def _added(model: str, usage: Usage, rates: Rates, factor: Decimal, above: int | None) -> Cost:
    uncached = _amount(usage.uncached, rates.input, factor)
    read = _amount(usage.cache_read, rates.cache_read, factor)
    output = _amount(usage.output, rates.output, factor)
    written = {
        ttl: _amount(tokens, rates.cache_write.get(ttl), factor)
        for ttl, tokens in (usage.cache_write or {}).items()
    }
    total: Decimal | None = _NOTHING
    for amount in (uncached, read, output, *written.values()):
        total = None if amount is None or total is None else plus(total, amount)
    missing: tuple[str, ...] = ()
    if total is None:
        parts = {"input": uncached, "cache_read": read, "output": output}
        parts |= {f"cache_write.{ttl}": amount for ttl, amount in written.items()}
        bound = f" above {above:,} tokens" if above else ""
        missing = tuple(f"price of {name}{bound}" for name, each in parts.items() if each is None)
    return Cost(
        model=model,
        total=total,
        uncached=uncached,
        cache_read=read,
        cache_write=written,
        output=output,
        missing=missing,
        above=above,
    )


def _amount(tokens: int | None, price: Decimal | None, factor: Decimal) -> Decimal | None:
    """Dollars; a part without tokens costs nothing, whatever its price may be."""
    if not tokens:
        return _NOTHING
    if price is None:
        return None
    return per_million(times(times(price, Decimal(tokens)), factor))
