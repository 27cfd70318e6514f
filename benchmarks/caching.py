"""What an agent's run costs under each way to use the prompt cache, in dollars.

Counted, not timed: a scripted server keeps prompts as the vendors do, on a clock that the
run itself turns, so that the figures are the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal

import server_reference
import smartclient
from server_reference.scripted.providers import CacheRules
from smartclient import catalog
from smartclient.testing import ManualClock

from .agent_run import Step, anthropic_steps, openai_steps
from .figures import Figure, Outcome, Progress

__all__ = ["QUICK", "Case", "Sizes", "Tally", "Way", "run", "tally"]

Edit = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Whose prices, and how many steps of the run."""

    anthropic_model: str = "claude-sonnet-5-5"
    openai_model: str = "gpt-5.6-sol"
    steps: int = 30


QUICK = Sizes(steps=6)


@dataclass(slots=True)
class Tally:
    """What one way came to."""

    dollars: Decimal = Decimal(0)
    input_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def hit_ratio(self) -> float:
        """Share of all input tokens that were read from the cache."""
        return self.cache_read / self.input_tokens if self.input_tokens else 0.0

    def facts(self) -> dict[str, float]:
        """What stands beside the figure."""
        return {
            "dollars": round(float(self.dollars), 6),
            "input tokens": self.input_tokens,
            "read": self.cache_read,
            "written": self.cache_write,
            "hit ratio": round(self.hit_ratio, 4),
        }


@dataclass(frozen=True, slots=True)
class Way:
    """One way to use the cache: our setting, or an edit of each request."""

    name: str
    hints: Literal["off", "cautious", "full"] = "off"
    edit: Edit = dict


@dataclass(frozen=True, slots=True)
class Case:
    """One form of the run."""

    provider: Literal["anthropic", "openai"]
    steps: Callable[[], Iterator[Step]]
    path: str = ""
    suffix: str = ""


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Run it under each alternative of each vendor."""
    figures: list[Figure] = []
    facts: dict[str, Any] = {}
    for case in _CASES:
        model = getattr(sizes, f"{case.provider}_model")
        base = None
        for way in _WAYS[case.provider]:
            label = f"{model}{case.suffix}: {way.name}"
            progress(label)
            each = tally(case, model, sizes.steps, way)
            base = each.dollars if base is None else base
            facts[label] = each.facts()
            if way.name != _BASE:
                figures.append(_figure(label, each.dollars / base, way, case))
    return Outcome(name="caching", sizes=asdict(sizes), figures=figures, facts=facts)


def tally(case: Case, model: str, steps: int, way: Way) -> Tally:
    """Play the first `steps` steps, and add up what they cost."""
    made = [step for step, _ in zip(case.steps(), range(steps), strict=False)]
    clock, found, facts = ManualClock(), Tally(), catalog.model(model)
    rules = [step.answer for step in made]
    with (
        server_reference.scripted(rules, clock=clock, prompt_cache=CacheRules()) as server,
        smartclient.Client(
            provider=case.provider,
            base_url=server.base_url + case.path,
            api_key="none",
            clock=clock,
            cache_hints=way.hints,
        ) as client,
    ):
        resource = client.messages if case.provider == "anthropic" else client.responses
        create: Any = resource.create
        for step in made:
            create(model=model, **way.edit(step.request))
            _add(found, client.last_report, facts)
            clock.advance(step.seconds + 4.0)  # and what the model itself takes
    return found


def _figure(label: str, ratio: Decimal, way: Way, case: Case) -> Figure:
    bar = 0.35 if way.hints != "off" and not case.suffix else None
    return Figure(name=f"{label} / {_BASE}", value=float(ratio), unit="ratio", bar=bar)


def _add(
    found: Tally, report: smartclient.CallReport | None, facts: catalog.ModelFacts | None
) -> None:
    usage = report.usage if report is not None else None
    cost = catalog.cost(usage, facts)
    if usage is None or cost is None or cost.total is None:
        raise RuntimeError(f"a call without a known cost: {cost}")
    found.dollars += cost.total
    found.input_tokens += usage.input_tokens or 0
    found.cache_read += usage.cache_read or 0
    found.cache_write += sum((usage.cache_write or {}).values())


def _top_level(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**request, "cache_control": {"type": "ephemeral"}}


def _last_message(request: Mapping[str, Any]) -> Mapping[str, Any]:
    *before, last = request["messages"]
    *blocks, end = last["content"]
    marked = {**end, "cache_control": {"type": "ephemeral"}}
    return {**request, "messages": [*before, {**last, "content": [*blocks, marked]}]}


def _no_marks(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**request, "prompt_cache_options": {"mode": "explicit"}}


_BASE = "no caching"
_OURS = (
    Way("smartclient, cautious", hints="cautious"),
    Way("smartclient, full", hints="full"),
)
_WAYS = {
    "anthropic": (
        Way(_BASE),
        Way("the vendor's automatic mark", edit=_top_level),
        Way("a mark on the last message", edit=_last_message),
        *_OURS,
    ),
    "openai": (
        Way(_BASE, edit=_no_marks),
        Way("the vendor's implicit mark"),
        *_OURS,
    ),
}
_CASES = (
    Case("anthropic", anthropic_steps),
    Case("anthropic", partial(anthropic_steps, tells_time=True), suffix=", the time in its prompt"),
    Case("openai", openai_steps, path="/v1"),
)
