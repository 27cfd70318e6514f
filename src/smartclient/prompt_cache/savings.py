"""What the provider's prompt cache saved in one call, net of what writing to it cost."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from ..catalog.costs import Cost, check_usage, cost
from ..catalog.exact import minus
from ..catalog.facts import ModelFacts
from ..wire import Served, Usage

__all__ = ["STANDARD", "priced", "savings", "uncached_usage"]


STANDARD = Served()


def savings(
    usage: Usage | None, facts: ModelFacts | None, *, served: Served = STANDARD
) -> Decimal | None:
    """Dollars between this reply without any cache and as it was billed; negative is a loss.

    Without a cache every input token costs what one that is computed and not kept costs:
    none is read for less, none is written for more. `None` where a price or a count that
    this needs is unknown.

    Args:
        usage: Tokens of one reply.
        facts: The model that gave it, as from `catalog.model(name)`.
        served: How it was served.

    Raises:
        TypeError: `usage` or `facts` is something else.
    """
    if usage is None:
        return None
    check_usage(usage)
    without, actual = priced(uncached_usage(usage), facts, served), priced(usage, facts, served)
    if without is None or actual is None or without.total is None or actual.total is None:
        return None
    return minus(without.total, actual.total)


def uncached_usage(usage: Usage) -> Usage:
    """The same tokens, had nothing been read from a cache or written to it."""
    return Usage(uncached=usage.input_tokens, output=usage.output, reasoning=usage.reasoning)


def priced(usage: Usage | None, facts: ModelFacts | None, served: Served) -> Cost | None:
    """`catalog.cost` of `usage`, served like that, whether its output is final or not.

    Only differences are made of it, which the output has no part in.
    """
    if usage is not None and not usage.is_final:
        usage = replace(usage, is_final=True)
    return cost(
        usage,
        facts,
        service_tier=served.service_tier,
        geo=served.geo,
        speed=served.speed,
    )
