"""The same text in ten languages, and code: tokens and money, for each family of models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from importlib import resources

from msgspec import Struct

from ..catalog import Catalog, cost
from ..tokens import TokenCount, count
from ..wire import Usage
from .tables import dollars, plain, table

__all__ = ["LANGUAGES", "TEXTS", "Compared", "compare", "compared"]

LANGUAGES = 10
TEXTS = 1_000
"""Texts that the money is for."""


class Compared(Struct, frozen=True, kw_only=True):
    """One text for one model.

    Attributes:
        ratio: Tokens for each one of the English text; of code, whose content is another,
            for each one of as many characters of English.
        price: Dollars for a thousand such texts as input; `None` is unknown.
    """

    text: str
    characters: int
    count: TokenCount
    ratio: float
    price: Decimal | None


def compare(model: str, catalog: Catalog) -> list[Compared]:
    """Each text of ours for `model`, English first."""
    source = resources.files("smartclient.tokens").joinpath("same_text.json")
    texts: dict[str, str] = json.loads(source.read_text(encoding="utf-8"))
    counts = {name: count(text, model=model) for name, text in texts.items()}
    english, base = counts["English"].p50, len(texts["English"])
    facts = catalog.model(model)
    found = []
    for number, (name, text) in enumerate(texts.items()):
        usual = english if number < LANGUAGES else english * len(text) / base
        price = cost(Usage(uncached=counts[name].p50 * TEXTS, output=0), facts)
        found.append(
            Compared(
                text=name,
                characters=len(text),
                count=counts[name],
                ratio=counts[name].p50 / usual,
                price=None if price is None else price.total,
            )
        )
    return found


def compared(models: Sequence[str], catalog: Catalog, *, as_json: bool) -> Iterator[str]:
    """What is printed of it."""
    found = {model: compare(model, catalog) for model in models}
    if as_json:
        told = [_told(model, one) for model, rows in found.items() for one in rows]
        yield json.dumps(told, indent=2, ensure_ascii=False)
        return
    for model, rows in found.items():
        counted = rows[0].count
        above = counted.p95 / counted.p50 - 1.0
        sure = f"may be {above:.0%} more" if counted.source == "heuristic" else "exact"
        yield f"{model}: {counted.source}, {sure}"
        columns = ("text", "characters", "tokens", "to English", f"{TEXTS:,} texts")
        cells = [
            (one.text, str(one.characters), str(one.count.p50), f"{one.ratio:.2f}",
             dollars(one.price)) for one in rows
        ]  # fmt: skip
        yield table(columns, cells)
        yield ""
    yield "Code and JSON are compared with as many characters of English."


def _told(model: str, one: Compared) -> dict[str, object]:
    return {
        "model": model,
        "text": one.text,
        "characters": one.characters,
        "p05": one.count.p05,
        "p50": one.count.p50,
        "p95": one.count.p95,
        "source": one.count.source,
        "ratio": round(one.ratio, 4),
        "dollars_per_1000": plain(one.price),
    }
