"""What a call may use at most, before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from .._call import Attempt, Call
from ..catalog import Catalog, catalog_of
from ..catalog.lookup import CatalogLike
from ..stores import Amount
from ..stores.sums import MOST
from ..tokens import Calibrator, count
from ..wire import Served
from .tariff import Tariff, tariff_of

__all__ = ["A_REQUEST", "DEFAULT_OUTPUT", "Quote", "Quotes", "amount_of", "is_free", "output_field"]

DEFAULT_OUTPUT = 4_096
"""Output tokens that are held for a call that sets no limit, to a model without a known one."""

_FREE = ("/count_tokens", "/responses/input_tokens")
_CALL = Amount(requests=1)
_MOST_TARIFFS = 1_024


class Quote(Struct, frozen=True):
    """The most that one attempt of a call may use.

    Attributes:
        input_tokens: As many as they may be: p95 of the count; `None` where tokens are
            neither limited nor priced.
        output_tokens: Of all choices together.
        choices: How many answers are asked for.
        tariff: What they cost; `None` where that is unknown, or not asked.
        amount: All of it, as stores count.
    """

    amount: Amount = _CALL
    input_tokens: int | None = None
    output_tokens: int = 0
    choices: int = 1
    tariff: Tariff | None = None


A_REQUEST = Quote()
"""The quote for a call whose tokens nobody counts."""


class Quotes:
    """Makes quotes, and remembers prices.

    Args:
        calibrator: What earlier calls taught about counts.
        catalog: Where prices and limits come from; `None`: what this version knows.
    """

    def __init__(
        self, *, calibrator: Calibrator | None = None, catalog: CatalogLike | None = None
    ) -> None:
        self._calibrator, self._catalog = calibrator, catalog
        self._tariffs: dict[tuple[str | None, ...], Tariff | None] = {}

    def of(self, call: Call, *, is_priced: bool) -> Quote:
        """What `call`, in a format that is known, may use; its price only where one is asked."""
        assert call.adapter is not None
        payload: Mapping[str, Any] = call.payload or {}
        counted = count(
            payload,
            model=call.model or "",
            endpoint=_ENDPOINTS.get(call.adapter.name),
            calibrator=self._calibrator,
            wait=False,
        )
        call.trace.counted = counted  # what the call then uses corrects later counts
        return self.made(call, counted.p95, is_priced=is_priced)

    def made(self, call: Call, input_tokens: int, *, is_priced: bool) -> Quote:
        """A quote for `call`, whose input is counted."""
        payload: Mapping[str, Any] = call.payload or {}
        choices = _choices(call)
        output = self._output(call, payload) * choices
        tariff = self.tariff(call.model, payload) if is_priced else None
        cost = tariff.most(input_tokens, output) if tariff is not None else None
        if cost is None:
            tariff, cost = None, 0
        amount = amount_of(input_tokens + output, cost)
        return Quote(amount, input_tokens, output, choices, tariff)

    def tariff(self, model: str | None, payload: Mapping[str, Any]) -> Tariff | None:
        """What the model costs in the way that `payload` asks for."""
        asked = payload.get("service_tier"), payload.get("speed"), payload.get("inference_geo")
        try:
            return self._tariffs[(model, *asked)]
        except (KeyError, TypeError):  # not asked for yet, or nothing that can be
            return self._found(model, *map(_text, asked))

    def tariff_of(self, attempt: Attempt) -> Tariff | None:
        """What an attempt is billed by, as its reply says, and where it does not its request."""
        served = attempt.billed_as or Served()
        how = (attempt.model or served.model, served.service_tier, served.speed, served.geo)
        found = self._tariffs.get(how)
        return self._found(*how) if found is None else found

    def _found(
        self, model: str | None, tier: str | None, speed: str | None, geo: str | None
    ) -> Tariff | None:
        facts = self.catalog.model(model) if model else None
        found = tariff_of(facts, service_tier=tier, geo=geo, speed=speed)
        if len(self._tariffs) >= _MOST_TARIFFS:  # names may come from users
            self._tariffs.clear()
        self._tariffs[(model, tier, speed, geo)] = found
        return found

    @cached_property
    def catalog(self) -> Catalog:
        return catalog_of(self._catalog)

    def _output(self, call: Call, payload: Mapping[str, Any]) -> int:
        """Output tokens of one choice: the caller's limit, or the model's own."""
        given: Any = payload.get(output_field(call))
        if type(given) is int and given >= 0:
            return given
        facts = self.catalog.model(call.model) if call.model else None
        own = None if facts is None else facts.max_output_tokens
        return DEFAULT_OUTPUT if own is None else own


def amount_of(tokens: int, nanodollars: int) -> Amount:
    """One call's; more than stores can count is the most that they can."""
    if tokens > MOST or nanodollars > MOST:
        tokens, nanodollars = min(tokens, MOST), min(nanodollars, MOST)
    return Amount(requests=1, tokens=tokens, nanodollars=nanodollars)


def is_free(call: Call) -> bool:
    """Whether no provider charges for it, or it asks no model: then no budget counts it."""
    return call.method != "POST" or call.target.partition("?")[0].endswith(_FREE)


def output_field(call: Call) -> str:
    """The field that limits the output of `call`."""
    assert call.adapter is not None
    if call.adapter.name == "openai.responses":
        return "max_output_tokens"
    payload = call.payload or {}
    # Newer models of Chat take the second only, older servers the first.
    is_chat = call.adapter.name == "openai.chat"
    if is_chat and (payload.get("max_tokens") is None or "max_completion_tokens" in payload):
        return "max_completion_tokens"
    return "max_tokens"


_ENDPOINTS: dict[str, Any] = {
    name: name for name in ("anthropic.messages", "openai.chat", "openai.responses")
}


def _choices(call: Call) -> int:
    if call.adapter is None or call.adapter.name != "openai.chat":
        return 1
    given: Any = (call.payload or {}).get("n")
    return given if type(given) is int and given > 0 else 1


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) else None
