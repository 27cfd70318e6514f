"""What tokens cost, in whole numbers: a call is priced twice, and decimals take their time."""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal

from msgspec import Struct

from ..catalog import ModelFacts, Rates
from ..catalog.costs import bounds, rates
from ..wire import Usage

__all__ = ["Tariff", "tariff_of"]

# Femtodollars per token: a price per million tokens with nine decimals is a whole number.
_PER_TOKEN = 1_000_000_000
_PER_NANO = 1_000_000


class _Card(Struct, frozen=True):
    """Femtodollars per token, of requests of one length; a price unknown is the dearest known.

    Attributes:
        dearest: Of input, however it will be billed: computed, or written to a cache.
    """

    input: int
    output: int
    read: int
    written: dict[str, int]
    dearest: int


class Tariff:
    """The prices of one model served in one way.

    Args:
        above: Input tokens above which other prices hold, rising.
        cards: The prices up to the first of them, and above each; `None` where unknown.
    """

    __slots__ = ("_above", "_cards", "_known")

    def __init__(self, above: tuple[int, ...], cards: tuple[_Card | None, ...]) -> None:
        self._above, self._cards = above, cards
        self._known = [card for card in cards if card is not None][-1]

    def most(self, input_tokens: int, output_tokens: int) -> int | None:
        """Nanodollars that a call may cost: its input billed in the dearest way, rounded up.

        Of fewer tokens none costs more: a longer request is never cheaper per token. `None`
        where the prices of so long a request are not known.
        """
        card = self._cards[bisect_left(self._above, input_tokens)] if self._above else self._known
        if card is None:
            return None
        return -(-(input_tokens * card.dearest + output_tokens * card.output) // _PER_NANO)

    def cost(self, usage: Usage, output_tokens: int) -> int:
        """Nanodollars that a call of `usage` cost, with so many tokens of output."""
        card = self._card(usage.input_tokens or 0)
        total = (usage.uncached or 0) * card.input + output_tokens * card.output
        if usage.cache_read:
            total += usage.cache_read * card.read
        if usage.cache_write:
            for ttl, tokens in usage.cache_write.items():
                total += tokens * card.written.get(ttl, card.dearest)
        return -(-total // _PER_NANO)

    def output_within(self, nanodollars: int, input_tokens: int) -> int:
        """The most output tokens that so much pays for, after the input."""
        card = self._card(input_tokens)
        left = nanodollars * _PER_NANO - input_tokens * card.dearest
        return left // card.output if card.output else (2**53 if left >= 0 else -1)

    def _card(self, input_tokens: int) -> _Card:
        if not self._above:
            return self._known
        # One that turned out longer than it could be: at the dearest prices that are known.
        return self._cards[bisect_left(self._above, input_tokens)] or self._known


def tariff_of(
    facts: ModelFacts | None,
    *,
    service_tier: str | None = None,
    geo: str | None = None,
    speed: str | None = None,
) -> Tariff | None:
    """The prices of a model that is asked to be served so; `None` where they are unknown."""
    if facts is None:
        return None
    above = bounds(facts)
    cards = tuple(
        [
            _card_of(rates(facts, length, service_tier=service_tier, geo=geo, speed=speed))
            for length in (0, *(bound + 1 for bound in above))
        ]
    )
    return Tariff(above, cards) if any(cards) else None


def _card_of(found: Rates | None) -> _Card | None:
    if found is None or found.input is None or found.output is None:
        return None
    dearest = max([found.input, *found.cache_write.values()])
    return _Card(
        _whole(found.input),
        _whole(found.output),
        _whole(dearest if found.cache_read is None else found.cache_read),
        {ttl: _whole(price) for ttl, price in found.cache_write.items()},
        _whole(dearest),
    )


def _whole(price: Decimal) -> int:
    """Dollars per million tokens as femtodollars per token, rounded up."""
    scaled = price * _PER_TOKEN
    whole = int(scaled)
    return whole + (scaled > whole)
