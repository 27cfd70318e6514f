"""What was seen, as a mark and a phrase. Every word comes from the facts by a rule."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from .cases import Case
from .runs import Facts, Step

__all__ = ["MARKS", "Cell", "Mark", "judge"]

Mark: TypeAlias = Literal["✓", "✗", "not yet", "–"]

MARKS: dict[Mark, str] = {
    "✓": "as it should",
    "✗": "not as it should",
    "not yet": "our client lacks what it takes",
    "–": "the fault is not in this client's format",
}

_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Cell:
    """One client under one fault."""

    mark: Mark
    phrase: str = ""

    def __str__(self) -> str:
        return f"{self.mark} {self.phrase}".rstrip()


def judge(case: Case, facts: Facts, api: str, usual: Collection[str], *, is_ours: bool) -> Cell:
    """The cell for what was seen.

    Args:
        usual: What the verdict names of this client with nothing broken; it is not repeated.
        is_ours: Whether "not yet" is an answer.
    """
    # Of a call that nobody waited for any longer the verdict cannot know how it would have ended.
    is_over = all(step.outcome != "waiting" for step in facts.steps)
    findings = [name for name in facts.findings if is_over and name not in usual]
    wrong = [*_wrong(case, facts, api), *findings]
    phrase = "; ".join([*_steps(facts, case, api), *_rest(case, facts, findings)])
    if not wrong:
        return Cell("✓", phrase)
    if is_ours and case.later:
        return Cell("not yet", f"({case.later}): {phrase}")
    return Cell("✗", phrase)


def _wrong(case: Case, facts: Facts, api: str) -> list[str]:
    """What is not as it should be."""
    right = case.right_under(api)
    steps = facts.steps
    wrong = []
    if len(steps) != len(right) or any(
        step.outcome not in allowed for step, allowed in zip(steps, right, strict=False)
    ):
        wrong.append("outcome")
    if case.attempts is not None and steps and steps[-1].attempts != case.attempts:
        wrong.append("attempts")
    if case.connections is not None and facts.connections != case.connections:
        wrong.append("connections")
    if case.status is not None and steps[-1].status != case.status:
        wrong.append("status")
    if case.keyed and not _one_key(facts):
        wrong.append("key")
    if case.paced is not None and (facts.gap or 0.0) < case.paced:
        wrong.append("pace")
    if (case.warned and not facts.has_warned) or facts.has_leaked:
        wrong.append("log")
    return wrong


def _one_key(facts: Facts) -> bool:
    return len(facts.keys) == 1 and None not in facts.keys


def _steps(facts: Facts, case: Case, api: str) -> list[str]:
    right = case.right_under(api)
    told = [
        _step(step, case, "answer" in allowed)
        for step, allowed in zip(facts.steps, right, strict=False)
    ]
    groups = [(text, len(list(same))) for text, same in groupby(told)]
    if len(groups) == 1 and len(told) > 1:
        return [f"{len(told)} times: {told[0]}"]
    return [", then ".join(text if n == 1 else f"{n} times {text}" for text, n in groups)]


def _step(step: Step, case: Case, can_answer: bool) -> str:
    tries = f" at attempt {step.attempts}" if step.attempts > 1 else ""
    match step.outcome:
        case "answer":
            if can_answer or step.had_end:
                return f"whole answer{'' if can_answer else ', no error'}{tries}"
            return f"no error, as if whole{tries}"
        case "altered":
            return f"altered: {_difference(step, case)}{tries}"
        case "part":
            return f"part of the answer as if whole{tries}"
        case "nothing":
            return f"empty answer, no error{tries}"
        case "error" | "foreign":
            return _error(step, case)
        case "waiting":
            asked = f", {step.attempts} attempts" if step.attempts > 1 else ""
            return f"still waiting after {case.patience:g} s{asked}"
        case "left":
            return "the server saw it leave"
        case "unnoticed":
            return "the server went on"


def _error(step: Step, case: Case) -> str:
    status = f" {step.status}" if step.status is not None else ""
    owner = "" if step.outcome == "error" else ", not its own"
    part = " with the part" if step.has_part else ""
    tries = f" after {step.attempts} attempts" if step.attempts > 1 else ""
    can_refuse = {"half", "reply"} & set(case.plan.split())
    unsent = ", nothing sent" if can_refuse and step.attempts == 0 else ""
    return f"`{step.error}`{status}{owner}{part}{tries}{unsent}"


def _difference(step: Step, case: Case) -> str:
    """The first thing that is not as it was scripted."""
    got = step.got
    assert got is not None
    if got.text != case.text:
        at = next(
            (n for n, (a, b) in enumerate(zip(got.text, case.text, strict=False)) if a != b),
            min(len(got.text), len(case.text)),
        )
        return f"text {_short(got.text[at:])} for {_short(case.text[at:])}"
    if got.calls != case.calls:
        shown = " ".join(f"{name}({arguments})" for name, arguments in got.calls)
        return f"calls {shown or 'none'}"
    return f"usage {got.usage}"


def _short(text: str) -> str:
    return f"{text[:_SHOWN]!a}" + ("…" if len(text) > _SHOWN else "")


def _rest(case: Case, facts: Facts, findings: list[str]) -> list[str]:
    told = []
    if case.connections is not None:
        plural = "" if facts.connections == 1 else "s"
        told.append(f"{facts.connections} connection{plural}")
    if case.keyed:
        told.append("one idempotency key" if _one_key(facts) else "no idempotency key")
    if case.paced is not None:
        waited = (facts.gap or 0.0) >= case.paced
        told.append("waited for the limit" if waited else "did not slow down")
    if case.warned:
        told.append("warned" if facts.has_warned else "no warning")
    if case.secret is not None:
        told.append("the cookie is in its log" if facts.has_leaked else "no cookie in its log")
    if findings:
        told.append(f"verdict: {', '.join(findings)}")
    return told
