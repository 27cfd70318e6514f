"""How a preset is run against a client, and what is right under it, in a form that is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from server_reference.scripted.request import Received

__all__ = ["OUTCOMES", "STEPS", "TEXT", "Case", "Outcome", "error", "said"]

TEXT = "Hello big wide world"
"""What the broken answer says, unless a case says otherwise."""

STEPS = {
    "ask": "a call",
    "large": "a call with 300 KB of text",
    "leave": "a stream that is left after its first text",
    "hold": "a stream that is kept and not read",
    "together": "three calls at once",
    "pause": "2.3 s of nothing",
    "reply": "a call that holds the answer before it",
    "half": "a call with half a pair of surrogates in it",
    "marked": "a call with five breakpoints",
    "unordered": "a call with a breakpoint of an hour after one of five minutes",
}
"""What a client can be made to do, one step after another."""

OUTCOMES = {
    "answer": "the whole answer, as it was scripted",
    "altered": "an answer that is not the one that was scripted",
    "part": "part of the answer, taken for the whole",
    "nothing": "an empty answer, taken for the whole",
    "error": "an error of the client's own",
    "foreign": "an error of a library below the client",
    "waiting": "still waiting when the patience was over",
    "left": "the server saw that the stream was left",
    "unnoticed": "the server went on, though the stream was left",
}
"""What becomes of a step."""

Outcome: TypeAlias = Literal[
    "answer", "altered", "part", "nothing", "error", "foreign", "waiting", "left", "unnoticed"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One preset's run. The first fields say how it is run, the others what is right.

    Attributes:
        parameters: Of the fault.
        plan: Words of `STEPS`.
        times: How many replies, or connections, are broken; `None` breaks all of them.
        when: Breaks only requests for which it is true.
        stream: Whether a stream is asked for; the SDK's helper reads it when `helper`.
        helper: Whether the message is put together by the client, tool calls and usage too.
        itl: Seconds between two pieces of the text.
        tls: Whether the server has TLS.
        timeout: The client's limit in seconds; `None` leaves its default.
        total: Its limit on the whole call beside that one, where it has such a limit.
        retries: The client's `max_retries`; `None` leaves its default.
        patience: Seconds after which a step counts as still waiting.
        alone: Whether nothing else may run beside it, since milliseconds or the processor matter.
        secret: A text whose way into the client's debug log is looked for.
        right: Outcomes of the steps, in their order, alternatives joined by `|`; by wire format
            where they differ, `*` being the others.
        text: The answer as it should come.
        calls: Tool calls as they should come: name and arguments.
        usage: Tokens of input, those read from the cache, and of output; `...` does not matter.
        attempts: Requests in the last step.
        connections: Opened in all.
        status: HTTP status that the error carries.
        keyed: Whether all attempts must carry one idempotency key.
        paced: Seconds that must pass between the first request and the second.
        warned: Whether the client must log a warning.
        later: What our client lacks for it; until it is there its column may say "not yet".
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    plan: str = "ask"
    times: int | None = None
    when: Callable[[Received], bool] | None = None
    stream: bool = True
    helper: bool = False
    itl: float = 0.0
    tls: bool = False
    timeout: float | None = None
    total: float | None = None
    retries: int | None = None
    patience: float = 12.0
    alone: bool = False
    secret: str | None = None

    right: str | Mapping[str, str] = "answer"
    text: str = TEXT
    calls: tuple[tuple[str, str], ...] = ()
    usage: Any = ...
    attempts: int | None = None
    connections: int | None = None
    status: int | None = None
    keyed: bool = False
    paced: float | None = None
    warned: bool = False
    later: str | None = None

    def __post_init__(self) -> None:
        if unknown := set(self.plan.split()) - set(STEPS):
            raise ValueError(f"no steps: {sorted(unknown)}; known are {', '.join(STEPS)}")
        rights = [self.right] if isinstance(self.right, str) else list(self.right.values())
        words = {word for one in rights for step in one.split() for word in step.split("|")}
        if unknown := words - set(OUTCOMES):
            raise ValueError(f"no outcomes: {sorted(unknown)}; known are {', '.join(OUTCOMES)}")

    def right_under(self, api: str) -> list[set[str]]:
        """The right outcomes of each step that has one, in a wire format."""
        chosen = self.right if isinstance(self.right, str) else self._by_format(api)
        return [set(step.split("|")) for step in chosen.split()]

    def _by_format(self, api: str) -> str:
        assert not isinstance(self.right, str)
        return self.right.get(api) or self.right["*"]

    def how(self) -> str:
        """How it is run, for a reader."""
        told = [f"{name}={value!r}" for name, value in self.parameters.items()]
        if self.plan != "ask":
            told.append(" → ".join(self.plan.split()))
        if not self.stream:
            told.append("not streamed")
        if self.times:
            told.append("then answered")
        if self.itl:
            told.append(f"{self.itl:g} s between words")
        if self.tls:
            told.append("TLS")
        if self.timeout is not None:
            told.append(f"timeout {self.timeout:g} s")
        if self.total is not None:
            told.append(f"{self.total:g} s in total where the client has that limit")
        if self.retries is not None:
            told.append(f"max_retries={self.retries}")
        return ", ".join(told)


def said(prefix: str, **changes: Any) -> Case:
    """The answer's text has `prefix` before it."""
    return Case(text=prefix + TEXT, **changes)


def error(**changes: Any) -> Case:
    """An error of the client's own is right."""
    return Case(right="error", **changes)
