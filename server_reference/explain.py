"""`smartclient-server explain`: what a running server's engine did last, and why."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from .core import StepRecord
from .printing import print_lines

__all__ = ["add_command", "run_command", "table"]

_KEY = "SMARTCLIENT_ADMIN_KEY"
_URL = "http://127.0.0.1:8000"
_TIMEOUT = 15.0
_SHOWN_BLOCKS = 6
_HEAD = ("sequence", "tenant", "tokens", "from", "drafts", "cached", "new blocks", "why")
_Row = tuple[str, ...]


class _CannotExplainError(Exception):
    """The server did not tell; the message says why in one sentence."""


def add_command(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    explain: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="print what a running server's engine did last, and why",
        description=f"The admin key is {_KEY} of the environment; a server without API keys "
        f"needs none from the same machine.",
    )
    explain.add_argument("--url", default=_URL, help=f"of the server (default: {_URL})")
    explain.add_argument("--last", type=int, default=10, metavar="N", help="steps (default: 10)")
    explain.add_argument("--json", action="store_true", help="print a line of JSON per step")


def run_command(options: Mapping[str, Any]) -> int:
    """Print the steps; return the exit status."""
    try:
        engines = _ask(options["url"], options["last"], os.environ.get(_KEY))
    except _CannotExplainError as error:
        print(f"smartclient-server: {error}", file=sys.stderr)
        return 2
    print_lines(_json_lines(engines) if options["json"] else table(engines))
    return 0


def _ask(url: str, last: int, key: str | None) -> list[list[dict[str, Any]] | None]:
    """The steps of each engine, oldest first."""
    _check(url, key)
    where = f"{url.rstrip('/').removesuffix('/v1')}/debug/steps?last={last}"
    headers = {} if key is None else {"x-admin-key": key}
    try:
        # Not through a proxy: a server without a key answers its own machine only.
        with build_opener(ProxyHandler({})).open(
            Request(where, headers=headers), None, _TIMEOUT
        ) as reply:
            told = msgspec.convert(json.load(reply)["engines"], list[list[StepRecord] | None])
            known: list[list[dict[str, Any]] | None] = msgspec.to_builtins(told)
            return known
    except HTTPError as error:
        with error:
            raise _CannotExplainError(_refusal(error, url)) from error
    except (URLError, OSError, HTTPException) as error:
        why = getattr(error, "reason", None) or error
        why = getattr(why, "strerror", None) or why
        said = f"no server answers at {url}: {why}; start one, or give its address as --url"
        raise _CannotExplainError(said) from error
    except (ValueError, LookupError, TypeError) as error:
        raise _CannotExplainError(
            f"what answers at {url} is no server of this kind: its reply is not the steps asked for"
        ) from error


def _check(url: str, key: str | None) -> None:
    try:
        parts = urlsplit(url)
        has_user = parts.username is not None or parts.password is not None
    except ValueError as error:
        raise _CannotExplainError(f"--url cannot be read: {error}; check it") from error
    if has_user:  # which is not repeated here
        raise _CannotExplainError(
            f"--url may hold no user or password; the admin key is read from {_KEY}"
        )
    if parts.scheme not in ("http", "https"):
        raise _CannotExplainError(f"--url must begin with http:// or https://, not {url!r}")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise _CannotExplainError(f"{_KEY} holds what no header carries; use ASCII characters")


def _refusal(error: HTTPError, url: str) -> str:
    """Why the server did not tell, in its own words where it has any."""
    try:
        said = str(json.load(error)["error"]["message"])
    except (ValueError, LookupError, TypeError, OSError, HTTPException):
        said = ""
    if error.code == 401:
        said = said or "it asks for a key"
        return f"the server at {url} refuses: {said} (the admin key is read from {_KEY})"
    if error.code == 404:
        return f"the server at {url} does not tell its steps; it is another or an older one"
    return f"the server at {url} answered {error.code}: {said or error.reason}"


def _json_lines(engines: list[list[dict[str, Any]] | None]) -> Iterator[str]:
    for number, steps in enumerate(engines):
        for step in steps or ():
            yield json.dumps({"engine": number, **step})


def table(engines: list[list[dict[str, Any]] | None]) -> Iterator[str]:
    """The steps for a terminal, each a line with its sequences in a table below."""
    for number, steps in enumerate(engines):
        if len(engines) > 1:
            yield f"engine {number}"
        if steps is None:
            yield "the engine does not answer: it is loading, or in the middle of a long step"
        elif not steps:
            yield "no step yet, or none is remembered (traced_steps=0)"
        for step in steps or ():
            yield from _step(step)


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    scheduled, waiting = step["scheduled"], step["waiting"]
    num_waiting = step.get("num_waiting", len(waiting))
    tokens = sum(one["num_tokens"] for one in scheduled)
    took = "under way" if step["duration"] is None else f"took {step['duration'] * 1e3:,.1f} ms"
    yield (
        f"step {step['number']:,} at {step['at']:,.3f} s, {took}: {tokens:,} tokens of "
        f"{len(scheduled):,} sequences; {num_waiting:,} waiting"
    )
    if step["preempted"]:
        yield f"  preempted: {', '.join(step['preempted'])}"
    rows = [_row(one) for one in scheduled]
    rows += [(one["id"], one["tenant"], *[""] * 5, f"waits: {one['why']}") for one in waiting]
    yield from _aligned([_HEAD, *rows] if rows else [])
    if num_waiting > len(waiting):
        yield f"  and {num_waiting - len(waiting):,} more, which wait too"
    yield ""


def _row(one: Mapping[str, Any]) -> _Row:
    drafts, shared = one["num_drafts"], one["num_shared"]
    return (
        one["id"],
        one["tenant"],
        f"{one['num_tokens']:,}",
        f"{one['start']:,}",
        str(drafts) if drafts else "",
        str(shared) if shared else "",
        _blocks(one["blocks"]),
        one["why"],
    )


def _blocks(indices: list[int]) -> str:
    shown = " ".join(map(str, indices[:_SHOWN_BLOCKS]))
    rest = len(indices) - _SHOWN_BLOCKS
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _aligned(rows: list[_Row]) -> Iterator[str]:
    """Rows under each other, without columns that are empty."""
    columns = [n for n in range(len(_HEAD)) if any(row[n] for row in rows[1:])]
    widths = {n: max(len(row[n]) for row in rows) for n in columns}
    for row in rows:
        yield "  " + "  ".join(row[n].ljust(widths[n]) for n in columns).rstrip()
