"""What a verdict is based on, and what a rule of it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from .entries import ConnectionEntry, Entry
from .scope import CallScope

__all__ = ["Check", "Evidence", "Finding", "VerdictRule", "verdict_rule"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the client did wrong.

    Attributes:
        rule: Name of the rule.
        message: What was seen, with numbers.
        requests: Numbers of the requests that show it.
    """

    rule: str
    message: str
    requests: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"rule": self.rule, "message": self.message, "requests": list(self.requests)}


@dataclass(frozen=True)
class Evidence:
    """What the server saw, and what the test reported.

    Attributes:
        entries: Requests, oldest first.
        connections: Likewise.
        scopes: Calls that the test watched.
        max_attempts: How many tries of one call are still in order.
        is_real_time: Whether the server's clock shows the machine's time.
        blind_since: Since when the client could do nothing, because its event loop waits for
            this verdict; on the machine's monotonic clock.
        is_key: Whether a text is the key behind an entry's `credential`.
    """

    entries: Sequence[Entry]
    connections: Sequence[ConnectionEntry] = ()
    scopes: Sequence[CallScope] = ()
    max_attempts: int = 5
    is_real_time: bool = True
    blind_since: float | None = None
    is_key: Callable[[str, str], bool] = lambda text, credential: False

    def sees_no_end(self, until: float) -> bool:
        """Whether the client may not have had the time to end what it was to end by `until`."""
        return self.blind_since is not None and self.blind_since < until

    @cached_property
    def calls(self) -> list[list[Entry]]:
        """The tries of each call, in order."""
        found: dict[int, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.call, []).append(entry)
        return list(found.values())

    @cached_property
    def retries(self) -> list[tuple[Entry, Entry]]:
        """Each try that was followed by another one, with that."""
        return [pair for call in self.calls for pair in pairwise(call)]

    @cached_property
    def reported(self) -> list[tuple[CallScope, list[Entry]]]:
        """Calls that the test watched, each with its requests, those without any left out."""
        by_scope: dict[int | None, list[Entry]] = {}
        for entry in self.entries:
            by_scope.setdefault(entry.scope, []).append(entry)
        return [(one, by_scope[one.number]) for one in self.scopes if one.number in by_scope]

    @cached_property
    def on_connection(self) -> dict[int, list[Entry]]:
        """Requests by the connection that carried them."""
        found: dict[int, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.connection, []).append(entry)
        return found

    @cached_property
    def opened(self) -> dict[object, list[float]]:
        """When each client opened connections that it used, by its `client`, in order."""
        found: dict[object, list[float]] = {}
        for connection in self.connections:
            if connection.number in self.on_connection:
                found.setdefault(connection.client, []).append(connection.opened_real)
        return {client: sorted(times) for client, times in found.items()}


Check = Callable[[Evidence], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """A rule: its name, what it is about in a sentence, and what looks for it."""

    name: str
    doc: str
    check: Check


def verdict_rule(check: Callable[[Evidence], Iterator[tuple[str, Sequence[Entry]]]]) -> VerdictRule:
    """Make a rule of a function that yields what was seen, with the requests that show it.

    Its name is the function's, and its sentence the first of the docstring.
    """
    name = check.__name__
    doc = " ".join((check.__doc__ or "").partition("\n\n")[0].split())

    def findings(evidence: Evidence) -> Iterator[Finding]:
        for message, entries in check(evidence):
            yield Finding(name, message, tuple(entry.number for entry in entries))

    return VerdictRule(name, doc, findings)
