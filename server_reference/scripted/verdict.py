"""The verdict: what the client did wrong, by name, with what was seen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .evidence import Evidence, Finding, VerdictRule
from .nearest import unknown
from .verdict_answers import ANSWER_RULES
from .verdict_connections import CONNECTION_RULES
from .verdict_retries import RETRY_RULES

__all__ = ["VERDICT_RULES", "Verdict", "VerdictError", "judge"]

VERDICT_RULES: tuple[VerdictRule, ...] = (*RETRY_RULES, *CONNECTION_RULES, *ANSWER_RULES)


class VerdictError(AssertionError):
    """The client did something wrong; the message lists what."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the client did wrong, if anything.

    Attributes:
        findings: In the order of `VERDICT_RULES`.
        num_requests: How many were judged.
    """

    findings: tuple[Finding, ...]
    num_requests: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def names(self) -> list[str]:
        """The rules that were broken, each once."""
        return list(dict.fromkeys(finding.rule for finding in self.findings))

    def check(self) -> None:
        """Fail if anything was found.

        Raises:
            VerdictError: Something was; the message lists it.
        """
        if self.findings:
            raise VerdictError(str(self))

    def __str__(self) -> str:
        if not self.findings:
            return f"nothing wrong in {self.num_requests} requests"
        head = f"the client is at fault (seen in {self.num_requests} requests):"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "is_clean": self.is_clean,
            "num_requests": self.num_requests,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def judge(evidence: Evidence, *, ignore: Collection[str] = ()) -> Verdict:
    """Apply every rule.

    Args:
        ignore: Names of rules to leave out.

    Raises:
        ValueError: A name is no rule's.
    """
    known = [rule.name for rule in VERDICT_RULES]
    for name in [ignore] if isinstance(ignore, str) else ignore:
        if name not in known:
            raise ValueError(unknown("rule of a verdict", name, known))
    findings = [
        finding
        for rule in VERDICT_RULES
        if rule.name not in ignore
        for finding in rule.check(evidence)
    ]
    return Verdict(tuple(findings), len(evidence.entries))
