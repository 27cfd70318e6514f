"""`smartclient tokens`: how many tokens requests are, and which part of them costs what."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ..catalog import Catalog
from ..tokens import TokenCount, count
from .models import FAMILIES, known, without_vocabulary
from .parts import parts_of
from .requests import UnreadableError, WrittenRequest, requests_in
from .tables import shown, table

__all__ = ["Counted", "add_command", "run"]

_MOST_UNKNOWN = 10  # paths that are listed of a file
_EXAMPLES = """examples:
  smartclient tokens request.json
  smartclient tokens --model claude-opus-5-5 prompts/*.txt
  cat batch.jsonl | smartclient tokens --json -
  smartclient tokens --languages
"""


def add_command(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "tokens",
        help="count the tokens of request files",
        description="Count the input tokens of requests (JSON of any of the three formats, one on "
        "each line, a batch of either provider) or of plain text. Nothing is sent.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="- is stdin")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="whose tokens, in place of the model that a request names; may be repeated",
    )
    parser.add_argument("--text", action="store_true", help="count each file as plain text")
    parser.add_argument(
        "--languages",
        action="store_true",
        help="compare one text in ten languages, and code, in place of files",
    )
    parser.add_argument("--catalog", metavar="FILE", help="your own models over ours")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


class Counted:
    """The requests of one file, counted for one model."""

    def __init__(self, file: str, model: str) -> None:
        self.file, self.model = file, model
        self.requests = self.p05 = self.p50 = self.p95 = 0
        self.sources: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.parts: Counter[str] = Counter()
        self.unknown: list[str] = []

    def add(self, request: WrittenRequest) -> None:
        """Count one more."""

        def counting(body: Any) -> TokenCount:
            return count(body, model=self.model, endpoint=request.endpoint)

        counted = counting(request.body)
        self.requests += 1
        self.p05, self.p50 = self.p05 + counted.p05, self.p50 + counted.p50
        self.p95 += counted.p95
        self.sources[counted.source] += 1
        self.kinds[counted.kind] += 1
        self.parts.update(parts_of(request.body, request.endpoint, counting))
        room = _MOST_UNKNOWN + 1 - len(self.unknown)
        self.unknown += [f"{request.place}: {path}" for path in counted.unknown[:room]]

    def join(self, other: Counted) -> None:
        """Count in what another counted."""
        for name in ("requests", "p05", "p50", "p95"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("sources", "kinds", "parts"):
            getattr(self, name).update(getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "file": self.file,
            "model": self.model,
            "requests": self.requests,
            "p05": self.p05,
            "p50": self.p50,
            "p95": self.p95,
            "sources": dict(self.sources),
            "kinds": dict(self.kinds),
            "parts": dict(self.parts),
            "unknown": self.unknown,
        }


def run(options: argparse.Namespace, catalog: Catalog) -> Iterable[str]:
    """What is printed, piece by piece.

    Raises:
        UnreadableError: A file holds no request.
        UnknownModelError: A model that the catalog does not know.
    """
    models = [(name, known(name, catalog))[0] for name in options.model]
    if options.languages:
        from .languages import compared

        if options.files:
            raise UnreadableError("--languages compares a text of our own; give it, or files")
        return compared(models or FAMILIES, catalog, as_json=options.json)
    if not options.files:
        raise UnreadableError("give a file to count, - for stdin, or --languages")
    found = [one for name in options.files for one in _counted(name, models, options.text)]
    return _as_json(found) if options.json else _as_text(found, catalog)


def _counted(name: str, models: list[str], as_text: bool) -> list[Counted]:
    found: dict[str, Counted] = {}
    for request in requests_in(name, as_text=as_text):
        for model in models or ([request.model] if request.model else FAMILIES):
            found.setdefault(model, Counted(name, model)).add(request)
    return list(found.values())


def _totals(found: list[Counted]) -> list[Counted]:
    totals: dict[str, Counted] = {}
    for one in found:
        totals.setdefault(one.model, Counted("total", one.model)).join(one)
    return [one for one in totals.values() if sum(other.model == one.model for other in found) > 1]


def _as_json(found: list[Counted]) -> Iterator[str]:
    told = {
        "files": [one.to_dict() for one in found],
        "totals": [_without_paths(one) for one in _totals(found)],
    }
    yield json.dumps(told, indent=2, ensure_ascii=False)


def _without_paths(total: Counted) -> dict[str, Any]:
    return {name: value for name, value in total.to_dict().items() if name != "unknown"}


def _as_text(found: list[Counted], catalog: Catalog) -> Iterator[str]:
    columns = ("file", "model", "requests", "p05", "p50", "p95", "source", "made of")
    yield table(columns, map(_row, [*found, *_totals(found)]), left=2)
    parts = [one for one in found if len(one.parts) > 1]
    if parts:
        yield ""
        yield table(
            ("file", "model", "part", "tokens", "share"),
            [
                (one.file, one.model, part, f"{tokens:,}", f"{tokens / one.p50:.1%}")
                for one in parts
                for part, tokens in one.parts.items()
            ],
            left=3,
        )
    yield from _remarks(found, catalog)


def _row(one: Counted) -> tuple[str, ...]:
    numbers = (one.requests, one.p05, one.p50, one.p95)
    return (
        one.file,
        one.model,
        *(f"{number:,}" for number in numbers),
        ", ".join(one.sources),
        ", ".join(one.kinds),
    )


def _remarks(found: list[Counted], catalog: Catalog) -> Iterator[str]:
    paths = list(dict.fromkeys(path for one in found for path in one.unknown))
    if paths:
        yield "\nnobody can count these from here, so each is a guess:"
        yield from (f"  {shown(path, longest=None)}" for path in paths[:_MOST_UNKNOWN])
        if len(paths) > _MOST_UNKNOWN:
            yield "  and more"
    hint = list(without_vocabulary(one.model for one in found))
    if hint:
        yield ""
        yield from hint
    for model in dict.fromkeys(one.model for one in found if one.model not in catalog):
        near = catalog.near(model, 1)
        meant = f" (near: {near[0]})" if near else ""
        yield f"\nthe catalog does not know the model {shown(model)}{meant}: a wide estimate"
