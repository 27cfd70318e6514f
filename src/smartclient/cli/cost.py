"""`smartclient cost`: requests in every model's money, and what a ledger adds up to."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

from ..catalog import Catalog
from .books import summed
from .models import chosen, without_vocabulary
from .quotes import Asked, Quote, quotes
from .requests import UnreadableError, requests_in
from .tables import as_csv, dollars, number, plain, table

__all__ = ["add_command", "run"]

_EXAMPLES = """examples:
  smartclient cost request.json
  smartclient cost request.json --calls 1000 --output 300 --model 'claude-*' --model gpt-6.1-sol
  smartclient cost --ledger calls.jsonl --by tag
"""
_COLUMNS = (
    "model provider source input_p05 input_p50 input_p95 output_tokens calls dollars_input_p50 "
    "dollars_input_p95 dollars_output dollars_total dollars_cached cached_tokens remarks"
).split()


def add_command(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "cost",
        help="price request files with every model, or add a ledger up",
        description="Price requests with every model of the catalog, at their counted input and "
        "the output that they allow. An unknown price is unknown, never 0. Nothing is sent.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="- is stdin")
    parser.add_argument(
        "--model", action="append", default=[], metavar="NAME", help="or a pattern; repeatable"
    )
    parser.add_argument(
        "--provider", action="append", default=[], metavar="NAME", help="such as openai"
    )
    _add_calls(parser)
    parser.add_argument("--text", action="store_true", help="take each file as plain text")
    parser.add_argument("--catalog", metavar="FILE", help="your own prices over ours")
    parser.add_argument("--ledger", metavar="FILE", help="add up a ledger in place of requests")
    parser.add_argument(
        "--by", choices=("tag", "model", "day", "provider"), help="of a ledger; else all four"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs")
    form.add_argument("--csv", action="store_true", help="for a spreadsheet")
    parser.set_defaults(run=run)


def _add_calls(parser: argparse.ArgumentParser) -> None:
    """What is asked about the calls that are priced."""
    parser.add_argument(
        "--output", type=_whole, metavar="N", help="output tokens of a call, not max_tokens"
    )
    parser.add_argument(
        "--calls", type=_positive, default=1, metavar="N", help="how often each request is sent"
    )
    parser.add_argument(
        "--shared",
        choices=("instructions", "all"),
        default="instructions",
        help="what calls share and a cache keeps: tools and system prompt, or all of a request",
    )
    parser.add_argument(
        "--batch", action="store_true", default=None, help="at the prices of a batch"
    )
    parser.add_argument(
        "--sort", choices=("total", "cached", "model"), default="total", help="the order of models"
    )


def _whole(text: str) -> int:
    return _at_least(0, text)


def _positive(text: str) -> int:
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    plain_text = text.replace(",", "").replace("_", "")
    if not plain_text.isdecimal() or not least <= int(plain_text) <= 10**12:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least} on, not {text!r}")
    return int(plain_text)


def run(options: argparse.Namespace, catalog: Catalog) -> Iterable[str]:
    """What is printed, piece by piece.

    Raises:
        UnreadableError: A file holds no request, or no ledger.
        UnknownModelError: A model or a maker that the catalog does not know.
    """
    if options.ledger is not None:
        if options.files:
            raise UnreadableError("give request files or --ledger, not both")
        return summed(options.ledger, by=options.by, form=_form(options))
    if options.by is not None:
        raise UnreadableError("--by sorts a ledger; give it with --ledger FILE")
    if not options.files:
        raise UnreadableError("give a request file to price, - for stdin, or --ledger FILE")
    models = chosen(options.model, options.provider, catalog)
    requests = (one for name in options.files for one in requests_in(name, as_text=options.text))
    asked = Asked(
        calls=options.calls,
        output=options.output,
        is_batch=options.batch,
        shared=options.shared,
        today=date.today().isoformat(),
    )
    found = sorted(quotes(models, requests, asked), key=_order(options.sort))
    if options.json:
        return [json.dumps([_told(one, asked) for one in found], indent=2)]
    if options.csv:
        rows = [[_cell(_told(one, asked)[name]) for name in _COLUMNS] for one in found]
        return [as_csv(_COLUMNS, rows)]
    return _as_text(found, asked)


def _form(options: argparse.Namespace) -> str:
    return "json" if options.json else "csv" if options.csv else "text"


def _order(by: str) -> Callable[[Quote], tuple[bool, Decimal, str]]:
    """Cheapest first, unknown ones last."""

    def key(one: Quote) -> tuple[bool, Decimal, str]:
        amount = {"total": one.total, "cached": one.cached, "model": Decimal(0)}[by]
        return amount is None, amount or Decimal(0), one.facts.name

    return key


def _told(one: Quote, asked: Asked) -> dict[str, Any]:
    return {
        "model": one.facts.name,
        "provider": one.facts.provider,
        "source": one.source,
        "input_p05": one.p05,
        "input_p50": one.p50,
        "input_p95": one.p95,
        "output_tokens": one.output_tokens,
        "calls": asked.calls,
        "dollars_input_p50": plain(one.input_p50),
        "dollars_input_p95": plain(one.input_p95),
        "dollars_output": plain(one.output),
        "dollars_total": plain(one.total),
        "dollars_cached": plain(one.cached),
        "cached_tokens": one.cached_tokens,
        "remarks": list(one.remarks),
    }


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return "; ".join(value) if isinstance(value, list) else str(value)


def _as_text(found: list[Quote], asked: Asked) -> Iterator[str]:
    requests = found[0].requests
    calls = asked.calls * requests
    columns = ["model", "input", "at p50", "at p95", "output", "total"]
    columns += ["cached", "saved"] if calls > 1 else []
    yield table([*columns, "remarks"], [_row(one, calls) for one in found], last=True)
    yield ""
    yield f"{number(requests, 'request')}, {number(calls, 'call')} in all."
    yield from _footnotes(found, calls)


def _row(one: Quote, calls: int) -> list[str]:
    row = [
        one.facts.name,
        f"{one.p50:,}",
        dollars(one.input_p50),
        dollars(one.input_p95),
        "" if one.output_tokens is None else dollars(one.output),
        dollars(one.total),
    ]
    if calls > 1:
        saved = None if one.total is None or one.cached is None else one.total - one.cached
        row += [dollars(one.cached), dollars(saved)]
    return [*row, "; ".join(one.remarks)]


def _footnotes(found: list[Quote], calls: int) -> Iterator[str]:
    if any(one.output_tokens is None for one in found):
        yield "No limit of the output is set, so the total leaves it out: give --output N."
    yield "input: tokens at p50; at p50, at p95, output: dollars for each request sent once;"
    yield "total: dollars of all calls, the input at p50 and the output as long as it may be."
    if calls > 1:
        yield "cached: where the first call writes what calls share, and the later ones read it."
    if any(one.source != "tokenizer" for one in found):
        yield "Models without a published tokenizer are estimated: at p95 says by how much."
    yield from without_vocabulary([one.facts.name for one in found])
