"""What requests would cost with a model, and what its prompt cache would make of that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ..catalog import Cost, ModelFacts, cost
from ..catalog.exact import minus, plus, times
from ..tokens import TokenCount, count
from ..wire import Usage
from .parts import is_system, parts_of
from .requests import WrittenRequest

__all__ = ["Asked", "Quote", "Shared", "quotes"]

Shared = Literal["instructions", "all"]

_AUTOMATIC = frozenset({"in_memory", "24h"})  # lifetimes of OpenAI's cache before gpt-5.6
_STEP = 128  # tokens in which that one reads
_NOTHING = Decimal(0)


class Asked(Struct, frozen=True, kw_only=True):
    """What a quote is for.

    Attributes:
        calls: How often each request is sent.
        output: Output tokens of each call, in place of what the requests allow.
        is_batch: At the prices of a batch; `None`: if the request is of one.
        shared: What calls have in common: tools and system prompt, or all of the request.
        today: By which day it is told that a model is gone, such as `2026-11-29`; empty: none.
    """

    calls: int = 1
    output: int | None = None
    is_batch: bool | None = None
    shared: Shared = "instructions"
    today: str = ""


class Quote(Struct, kw_only=True):
    """Requests at the prices of one model. Dollars are exact; `None` is unknown.

    Attributes:
        p05: Input tokens of all requests, each sent once; so too `p50`, `p95`.
        output_tokens: Of all requests; `None` where one sets no limit.
        input_p50: Dollars for the input, each request sent once; so too `input_p95`.
        output: Dollars for the output; `None` also where there is no limit.
        total: Dollars for all calls without a cache, of input at `p50` and the output.
        cached: The same with the model's prompt cache; equal where it takes none of it.
        cached_tokens: Input tokens of all calls that would be read from it.
        remarks: What else to know, such as a window that is too small.
    """

    facts: ModelFacts
    requests: int = 0
    source: str = "tokenizer"
    p05: int = 0
    p50: int = 0
    p95: int = 0
    output_tokens: int | None = 0
    input_p50: Decimal | None = _NOTHING
    input_p95: Decimal | None = _NOTHING
    output: Decimal | None = _NOTHING
    total: Decimal | None = _NOTHING
    cached: Decimal | None = _NOTHING
    cached_tokens: int = 0
    remarks: dict[str, None]


def quotes(
    models: Sequence[ModelFacts], requests: Iterable[WrittenRequest], asked: Asked
) -> list[Quote]:
    """What `requests`, taken one after the other, would cost with each of `models`."""
    found = [Quote(facts=facts, remarks={}) for facts in models]
    seen: dict[bytes, bool] = {}
    for request in requests:
        turns = _turns(seen, _shared(request.body, asked.shared), asked.calls)
        for one in found:
            counted = count(request.body, model=one.facts.name, endpoint=request.endpoint)
            output = request.max_output if asked.output is None else asked.output
            is_batch = request.is_batch if asked.is_batch is None else asked.is_batch
            _add(one, _One(request, counted, output, is_batch), asked, turns)
    for one in found:
        if one.facts.retires_on:
            verb = "retired" if asked.today > one.facts.retires_on else "retires"
            one.remarks[f"{verb} {one.facts.retires_on}"] = None
    return found


class _Turns(NamedTuple):
    """How many calls do without the cache, write what they share, and read it."""

    plain: int
    writing: int
    reading: int


def _turns(seen: dict[bytes, bool], prefix: bytes, calls: int) -> _Turns:
    """What `calls` with this prefix do: the first writes it, but never for itself alone.

    `seen` says of each prefix whether it was written.
    """
    if prefix not in seen:
        seen[prefix] = calls > 1
        return _Turns(0, 1, calls - 1) if calls > 1 else _Turns(1, 0, 0)
    if seen[prefix]:
        return _Turns(0, 0, calls)
    seen[prefix] = True
    return _Turns(-1, 1, calls)  # the one before, which now had reason to write


class _One(Struct, frozen=True):
    """A request, counted."""

    request: WrittenRequest
    counted: TokenCount
    output: int | None
    is_batch: bool


def _add(found: Quote, one: _One, asked: Asked, turns: _Turns) -> None:
    found.requests += 1
    counted, output = one.counted, one.output
    if counted.source != "tokenizer":
        found.source = counted.source
    found.p05, found.p50 = found.p05 + counted.p05, found.p50 + counted.p50
    found.p95 += counted.p95
    known = None if output is None or found.output_tokens is None else found.output_tokens + output
    found.output_tokens = known
    alone = _price(found, one, Usage(uncached=counted.p50, output=0))
    whole = _price(found, one, Usage(uncached=counted.p50, output=output or 0))
    found.input_p50 = _sum(found.input_p50, alone)
    most = _price(found, one, Usage(uncached=counted.p95, output=0))
    found.input_p95 = _sum(found.input_p95, most)
    spent = None if whole is None or alone is None else minus(whole, alone)
    found.output = None if known is None else _sum(found.output, spent)
    found.total = _sum(found.total, _times(whole, asked.calls))
    _add_cached(found, one, asked.shared, turns)
    for remark in _remarks(found.facts, one):
        found.remarks[remark] = None


def _add_cached(found: Quote, one: _One, shared: Shared, turns: _Turns) -> None:
    written, read, remark = _cacheable(found.facts, _prefix(found.facts, one, shared))
    if remark is not None:
        found.remarks[remark] = None
    whole, output = one.counted.p50, one.output or 0
    kept = read or 0
    writes = {} if written is None else {written: kept}
    uncached = whole - sum(writes.values())
    for calls, usage in (
        (turns.plain, Usage(uncached=whole, output=output)),
        (turns.writing, Usage(uncached=uncached, cache_write=writes, output=output)),
        (turns.reading, Usage(uncached=whole - kept, cache_read=kept, output=output)),
    ):
        if calls:
            is_known = read is not None or not (turns.writing or turns.reading)
            price = _price(found, one, usage) if is_known else None
            found.cached = _sum(found.cached, _times(price, calls))
    found.cached_tokens += turns.reading * kept


def _price(found: Quote, one: _One, usage: Usage) -> Decimal | None:
    """Dollars; why they are unknown, or more than usual, becomes a remark."""
    priced = cost(usage, found.facts, batch=one.is_batch) or Cost(model=found.facts.name)
    if priced.above:
        found.remarks[f"dearer above {priced.above:,} tokens"] = None
    if priced.missing:
        found.remarks[f"unknown: {', '.join(priced.missing)}"] = None
    return priced.total


def _prefix(facts: ModelFacts, one: _One, shared: Shared) -> int:
    """Tokens that calls have in common."""
    request = one.request
    if shared == "all":
        return one.counted.p50

    def counting(part: Any) -> TokenCount:
        return count(part, model=facts.name, endpoint=request.endpoint)

    parts = parts_of(request.body, request.endpoint, counting)
    return parts.get("tools", 0) + parts.get("system", 0)


def _shared(body: Any, shared: Shared) -> bytes:
    """What tells the prefix of one request from that of another."""
    if shared != "all" and isinstance(body, Mapping):
        items = [body.get(name) for name in ("messages", "input")]
        body = [
            *(body.get(name) for name in ("tools", "functions", "system", "instructions")),
            *(one for some in items if isinstance(some, list) for one in some if is_system(one)),
        ]
    text = json.dumps(body, sort_keys=True, default=repr)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _cacheable(facts: ModelFacts, prefix: int) -> tuple[str | None, int | None, str | None]:
    """Under which lifetime a prefix is written, how much of it is read, and what to remark.

    `None` for the lifetime: writing costs nothing; for what is read: nobody knows.
    """
    ttls = facts.cache_ttls
    if not prefix:
        return None, 0, None
    if ttls is None:
        return None, None, "cache rules unknown"
    least = facts.min_cache_tokens
    if least is not None and prefix < least:
        return None, 0, f"not cached below {least:,} tokens"
    remark = "shortest cached prefix unknown" if least is None else None
    if _AUTOMATIC.intersection(ttls):
        return None, prefix // _STEP * _STEP, remark
    return min(ttls, key=lambda name: ttls[name]), prefix, remark


def _remarks(facts: ModelFacts, one: _One) -> Iterator[str]:
    body, counted, output = one.request.body, one.counted, one.output
    window, longest = facts.context_window, facts.max_output_tokens
    bounds = [(window, output or 0), (facts.max_input_tokens, 0)]
    known = [(bound, more) for bound, more in bounds if bound is not None]
    if any(counted.p50 + more > bound for bound, more in known):
        yield f"does not fit: window of {min(bound for bound, _ in known):,}"
    elif any(counted.p95 + more > bound for bound, more in known):
        yield f"may not fit: window of {min(bound for bound, _ in known):,}"
    if output is not None and longest is not None and output > longest:
        yield f"answers at most {longest:,} tokens"
    if isinstance(body, Mapping):
        refused = [name for name in facts.refuses or () if body.get(name) is not None]
        if refused:
            yield f"refuses {', '.join(refused)}"


def _sum(before: Decimal | None, more: Decimal | None) -> Decimal | None:
    return None if before is None or more is None else plus(before, more)


def _times(amount: Decimal | None, calls: int) -> Decimal | None:
    return None if amount is None else times(amount, Decimal(calls))
