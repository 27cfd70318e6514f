"""The rows: every preset under every client that has its format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from server_reference.scripted.faults.presets import Preset
from server_reference.scripted.faults.registry import PRESETS

from . import cases_calls, cases_connections, cases_streams
from .cases import Case
from .clients import ApiName, ClientName
from .judge import Cell, judge
from .runs import run

__all__ = ["CASES", "CLIENTS", "Row", "row", "usual"]

CASES: Mapping[str, Case] = {
    **cases_streams.CASES,
    **cases_connections.CASES,
    **cases_calls.CASES,
}
"""By name of the preset."""

CLIENTS: tuple[ClientName, ...] = ("openai", "anthropic", "smartclient")
_FORMATS: Mapping[ClientName, tuple[ApiName, ...]] = {
    "openai": ("openai.chat", "openai.responses"),
    "anthropic": ("anthropic.messages",),
    "smartclient": ("openai.chat", "anthropic.messages", "openai.responses"),
}
_SHORT = {"openai.chat": "chat", "anthropic.messages": "messages", "openai.responses": "responses"}


@dataclass(frozen=True, slots=True)
class Row:
    """A preset, and a cell for each of `CLIENTS`."""

    name: str
    cells: tuple[Cell, ...]


def row(name: str) -> Row:
    """Run one preset against every client."""
    preset = PRESETS[name]
    return Row(name, tuple(_cell(preset, CASES[name], client) for client in CLIENTS))


def _cell(preset: Preset[...], case: Case, client: ClientName) -> Cell:
    cells = {api: _judged(preset, case, client, api) for api in _formats(preset, case, client)}
    if not cells:
        return Cell("–")
    if len(set(cells.values())) == 1:
        return next(iter(cells.values()))
    worst = next(mark for mark in ("✗", "not yet", "✓") if mark in {c.mark for c in cells.values()})
    told = (
        f"{_SHORT[api]}: {'' if c.mark == worst else c.mark + ' '}{c.phrase}"
        for api, c in cells.items()
    )
    return Cell(worst, "; ".join(told))


def _formats(preset: Preset[...], case: Case, client: ClientName) -> Iterator[ApiName]:
    """Chat Completions before Responses, which are run where the fault fits nothing else."""
    fits = [api for api in _FORMATS[client] if not preset.apis or api in preset.apis]
    if "openai.chat" in fits and "openai.responses" in fits:
        fits.remove("openai.responses")
    if set(case.plan.split()) & {"marked", "unordered"}:  # only one format has breakpoints so
        fits = [api for api in fits if api == "anthropic.messages"]
    yield from fits


def _judged(preset: Preset[...], case: Case, client: ClientName, api: ApiName) -> Cell:
    facts = run(preset, case, client, api)
    known = usual(client, api, case.stream, case.helper)
    return judge(case, facts, api, known, is_ours=client == "smartclient")


@cache
def usual(client: ClientName, api: ApiName, stream: bool, helper: bool) -> frozenset[str]:
    """What the verdict names of this client when nothing is broken."""
    healthy = Case(plan="ask ask ask", stream=stream, helper=helper)
    return frozenset(run(None, replace(healthy), client, api).findings)
