"""Write `docs/reference/languages.md`: one text in ten languages and code, counted and priced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from smartclient.catalog import builtin
from smartclient.cli.languages import LANGUAGES, TEXTS, Compared, compare
from smartclient.cli.models import FAMILIES
from smartclient.cli.tables import dollars, markdown

__all__ = ["PAGE", "main", "render"]

Cell = Callable[[Compared], str]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "languages.md"

_HEAD = """# Languages

Written from `src/smartclient/tokens/same_text.json` by `scripts/docs`; change it there.

The same paragraph of a story in ten languages, and code, for a model of each way in which text
is cut into tokens.
`smartclient tokens --languages --model NAME` says it for any other.
"""

_TAIL = """
A figure with ± is an estimate, and the truth lies within that share of it for nine texts of ten:
the tokenizer of that model is not published, and no Claude counted these texts.
Figures without are counted with the model's own vocabulary.
[How sure a count is](../explanation/token-counts.md) says where the estimates come from.
"""


def render() -> str:
    """The whole page."""
    found = {model: compare(model, builtin()) for model in FAMILIES}
    texts = [one.text for one in found[FAMILIES[0]]]
    columns = ("text", "characters", *(f"`{model}`" for model in FAMILIES))
    lines = [
        _HEAD,
        "## Tokens\n",
        markdown(columns, _rows(found, _tokens)),
        _TAIL,
        "## To English\n",
        f"Tokens for each one of the English text; {_joined(texts[LANGUAGES:])}, which say "
        "something else, for each one of as many characters of English.\n",
        markdown(columns, _rows(found, _ratio)),
        f"\n## Dollars for {TEXTS:,} such texts\n",
        "As input that is not cached, at the middle of each estimate.\n",
        markdown(columns, _rows(found, lambda one: dollars(one.price))),
    ]
    return "\n".join(lines) + "\n"


def _rows(found: dict[str, list[Compared]], cell: Cell) -> Iterator[list[str]]:
    for same in zip(*found.values(), strict=True):
        yield [same[0].text, str(same[0].characters), *map(cell, same)]


def _tokens(one: Compared) -> str:
    counted = one.count
    if counted.source == "tokenizer":
        return str(counted.p50)
    return f"{counted.p50} ± {(counted.p95 - counted.p05) / 2 / counted.p50:.0%}"


def _ratio(one: Compared) -> str:
    return f"{one.ratio:.2f}"


def _joined(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
