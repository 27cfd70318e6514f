"""Write `docs/reference/catalog.md` from the catalog that we ship."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path

from smartclient import catalog
from smartclient.catalog import ModelFacts, Prices, Rates, Tier

__all__ = ["PAGE", "main", "render"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "catalog.md"

_HEAD = """# Models

Written from `src/smartclient/catalog/catalog.json` by `scripts/docs`; change it there.

What `smartclient.catalog.model(name)` knows, and since when.
[Price a call](../how-to/price-a-call.md) shows the use, and how to say it better than we do.
Prices are dollars per million tokens, as the maker of a model lists them; limits are tokens.
An empty cell is unknown, and so is a cost that would need it.
"""

_TITLES = {"anthropic": "Anthropic", "openai": "OpenAI"}
_COLUMNS = (
    "model | input | output | cache read | cache write | cached from | window | longest answer "
    "| tokenizer | retires | as of"
)


def render() -> str:
    """The whole page."""
    records = list(catalog.builtin())
    lines = [_HEAD]
    for provider, title in _TITLES.items():
        ours = [record for record in records if record.provider == provider]
        lines += [f"## {title}", "", *_table(_COLUMNS, map(_row, ours)), ""]
    priced = [(record, record.prices) for record in records if record.prices is not None]
    lines += ["## Other prices", "", *_others(priced), ""]
    lines += ["## Images", "", *_images(records), ""]
    lines += ["## Parameters that a model refuses", "", *_refused(records), ""]
    lines += ["## What else is known, and where sources disagree", "", *_said(records), ""]
    lines += ["## Sources", "", *_sources(records)]
    return "\n".join(lines) + "\n"


def _table(columns: str, rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield f"| {columns} |"
    yield "|" + " --- |" * (columns.count("|") + 1)
    for row in rows:
        yield f"| {' | '.join(row)} |".replace("  |", " |")


def _row(record: ModelFacts) -> Iterator[str]:
    also = f" ({', '.join(record.aliases)})" if record.aliases else ""
    yield f"`{record.name}`{also}"
    prices = record.prices or Prices()
    yield from _cells(prices)
    for limit in (record.min_cache_tokens, record.context_window, record.max_output_tokens):
        yield "" if limit is None else f"{limit:,}"
    yield record.tokenizer or ""
    yield record.retires_on or ""
    yield record.as_of or ""


def _cells(rates: Rates) -> Iterator[str]:
    for price in (rates.input, rates.output, rates.cache_read):
        yield _number(price)
    yield ", ".join(f"{ttl}: {_number(price)}" for ttl, price in rates.cache_write.items())


def _number(price: Decimal | None) -> str:
    return "" if price is None else f"{price.normalize():f}"


def _others(priced: list[tuple[ModelFacts, Prices]]) -> Iterator[str]:
    yield "A multiplier is on every price of the model that the line does not name itself.\n"
    rows = [row for record, prices in priced for row in _other_rows(record.name, prices)]
    rows += [
        row
        for record, _ in priced
        if record.fine_tuned is not None
        for row in _tuned_rows(record.name, record.fine_tuned)
    ]
    yield from _table("model | when | multiplier | input | output | read | write", rows)


def _other_rows(name: str, prices: Prices) -> Iterator[list[str]]:
    yield from _tier_rows(name, "", prices.tiers)
    modes = {"batch": prices.batch, **prices.service_tiers, **prices.speeds}
    for when, mode in modes.items():
        if mode is not None:
            yield [f"`{name}`", when, _number(mode.multiplier), *_cells(mode)]
            yield from _tier_rows(name, f"{when}, ", mode.tiers or ())
    for where, factors in (("served in", prices.geos), ("named for", prices.regions)):
        for factor in sorted(set(factors.values())):
            places = ", ".join(place for place, one in factors.items() if one == factor)
            yield [f"`{name}`", f"{where} {places}", _number(factor), "", "", "", ""]


def _tier_rows(name: str, when: str, tiers: Iterable[Tier]) -> Iterator[list[str]]:
    for tier in tiers:
        cells = ["unknown", "", "", ""] if tier.input is None else [*_cells(tier)]
        yield [f"`{name}`", f"{when}more than {tier.above:,} input tokens", "", *cells]


def _tuned_rows(name: str, prices: Prices) -> Iterator[list[str]]:
    yield [f"`ft:{name}`", "always", "", *_cells(prices)]
    yield from _other_rows(f"ft:{name}", prices)


def _images(records: list[ModelFacts]) -> Iterator[str]:
    rows = []
    for record in records:
        rule = record.image_tokens
        if rule is not None and rule.kind == "tiles":
            text = f"{rule.base} and {rule.per_tile} for each tile"
        elif rule is not None:
            text = f"one for each square of {rule.patch_pixels} pixels"
            text += f", times {_number(rule.multiplier)}" if rule.multiplier != 1 else ""
            text += f", {rule.max_tokens:,} at most" if rule.max_tokens else ""
        else:
            continue
        edge = f"{rule.max_edge_pixels:,} pixels" if rule.max_edge_pixels else ""
        rows.append([f"`{record.name}`", text, edge])
    yield from _table("model | tokens | longest edge", rows)


def _refused(records: list[ModelFacts]) -> Iterator[str]:
    rows = [
        [f"`{record.name}`", ", ".join(f"`{name}`" for name in record.refuses)]
        for record in records
        if record.refuses
    ]
    yield from _table("model | refuses", rows)


def _said(records: list[ModelFacts]) -> Iterator[str]:
    for record in records:
        for text in (*record.notes, *record.conflicts):
            yield f"- `{record.name}`: {text}"


def _sources(records: list[ModelFacts]) -> Iterator[str]:
    by_source: dict[str, list[str]] = {}
    for record in records:
        by_source.setdefault(record.source or "", []).append(f"`{record.name}`")
    for source, names in by_source.items():
        yield f"- {source}: {', '.join(names)}"


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
