"""Asking for less, where there is no room for all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._call import Call
from ..stores import Account, Amount, Balance
from .budget import Downgrade
from .quote import Quote, Quotes, output_field

__all__ = ["cheaper", "shorter"]

_SHORTEST_RESPONSE = 16  # what OpenAI's Responses takes as max_output_tokens at least


def shorter(
    call: Call,
    quote: Quote,
    quotes: Quotes,
    downgrade: Downgrade,
    places: Sequence[tuple[Account, Balance]],
) -> tuple[Call, Quote] | None:
    """`call` with an answer as long as there is room for in every one of `places`.

    `None` where that would be shorter than may be, or no shorter than it is.
    """
    if downgrade.max_tokens is None or quote.input_tokens is None:
        return None
    room = min(_room(quote, account, balance) for account, balance in places) // quote.choices
    floor = max(downgrade.max_tokens, _floor(call))
    if not floor <= room < quote.output_tokens // quote.choices:
        return None
    field, payload = output_field(call), call.payload or {}
    edited = call.with_payload({**payload, field: room})
    return edited, quotes.made(edited, quote.input_tokens, is_priced=quote.tariff is not None)


def cheaper(
    call: Call, quotes: Quotes, downgrade: Downgrade, *, is_priced: bool
) -> tuple[Call, Quote] | None:
    """`call` to the other model; `None` where it goes there already."""
    if downgrade.model is None or downgrade.model == call.model:
        return None
    edited = call.with_payload({**(call.payload or {}), "model": downgrade.model})
    return edited, quotes.of(edited, is_priced=is_priced)


def _room(quote: Quote, account: Account, balance: Balance) -> int:
    """Output tokens that fit into `account` beside the input of the call."""
    taken = _sum(balance.spent, balance.held)
    found = 2**53
    if account.requests is not None and taken.requests >= account.requests:
        return -1
    if account.tokens is not None:
        found = account.tokens - taken.tokens - (quote.input_tokens or 0)
    if account.nanodollars is not None and quote.tariff is not None:
        left = account.nanodollars - taken.nanodollars
        found = min(found, quote.tariff.output_within(left, quote.input_tokens or 0))
    return found


def _floor(call: Call) -> int:
    """The fewest output tokens that the provider takes with this request."""
    payload: Mapping[str, Any] = call.payload or {}
    if output_field(call) == "max_output_tokens":
        return _SHORTEST_RESPONSE
    thinking = payload.get("thinking")
    tokens = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    return tokens + 1 if isinstance(tokens, int) else 1  # an answer is longer than its thoughts


def _sum(one: Amount, other: Amount) -> Amount:
    return Amount(
        requests=one.requests + other.requests,
        tokens=one.tokens + other.tokens,
        nanodollars=one.nanodollars + other.nanodollars,
    )
