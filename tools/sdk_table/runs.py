"""Run one case against one client, and write down what was seen on both ends."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import server_reference
from server_reference.scripted import Answer, fault, greeting, rule
from server_reference.scripted.faults.presets import Preset
from server_reference.scripted.sent import read_sent
from server_reference.scripted.server import ScriptedServer

from .cases import TEXT, Case, Outcome
from .clients import MAKERS, ApiName, Caller, ClientName, Connected, Got, Sent

__all__ = ["Facts", "Step", "run"]

_MARK = {"type": "ephemeral"}
_LEFT_SECONDS = 1.0
_PAUSE = 2.3
_SETTLE = 0.5
_LOGGERS = ("openai", "anthropic", "httpx2", "httpcore2", "smartclient")


@dataclass(slots=True)
class Step:
    """What became of one step.

    Attributes:
        error: Its class, with the package when it is not the client's own.
        attempts: Requests that the server saw.
        has_part: Whether the error carries what had come.
        had_end: Whether the last reply came to its end.
    """

    outcome: Outcome
    got: Got | None = None
    error: str | None = None
    status: int | None = None
    has_part: bool = False
    attempts: int = 0
    had_end: bool = False
    raised: BaseException | None = field(default=None, repr=False)


@dataclass(slots=True)
class Facts:
    """What was seen.

    Attributes:
        connections: Opened.
        findings: What the server's verdict named.
        keys: Different idempotency keys; `None` among them for a request without one.
        gap: Seconds between the first two requests.
    """

    steps: list[Step] = field(default_factory=list)
    connections: int = 0
    findings: tuple[str, ...] = ()
    keys: set[str | None] = field(default_factory=set)
    gap: float | None = None
    has_warned: bool = False
    has_leaked: bool = False


def run(preset: Preset[...] | None, case: Case, client: ClientName, api: ApiName) -> Facts:
    """Play the case to a client of its own; without a preset nothing is broken."""
    http2 = preset is not None and "h2" in preset.needs
    with (
        server_reference.scripted(
            _rule(preset, case), tls=case.tls or None, greetings=_greetings(preset, case)
        ) as server,
        _logged(case.secret is not None) as log,
    ):
        caller: Caller = MAKERS[client](_where(server, case, http2), api)
        player = _Player(server, caller, case, log)
        for word in case.plan.split():
            if not player.play(word):
                break
        facts = player.facts()
    if all(step.outcome != "waiting" for step in facts.steps):
        player.close()
    facts.has_leaked = case.secret is not None and any(case.secret in line for line in log.lines)
    facts.has_warned = log.has_warned
    return facts


def _where(server: ScriptedServer, case: Case, http2: bool) -> Connected:
    # Under TLS by the name that the certificate is for.
    name = "localhost" if case.tls else "127.0.0.1"
    return Connected(
        server.base_url.replace("127.0.0.1", name),
        server.ca_file,
        http2,
        case.timeout,
        case.total,
        case.retries,
    )


def _rule(preset: Preset[...] | None, case: Case) -> Any:
    if preset is None or "greeting" in preset.needs:
        return Answer(TEXT)
    broken = Answer(TEXT, itl=case.itl) | fault(preset.name, **case.parameters)
    if (when := case.when) is not None:
        return [rule(broken, when=when), rule(Answer(TEXT))]
    if case.times is None:
        return rule(broken)
    return [rule(broken, times=case.times), rule(Answer(TEXT))]


def _greetings(preset: Preset[...] | None, case: Case) -> dict[int, Any]:
    if preset is None or "greeting" not in preset.needs:
        return {}
    script = greeting(preset.name, **case.parameters)
    return dict.fromkeys(range(1, (case.times or 1) + 1), script)


class _Player:
    """Makes a client do one step after another."""

    def __init__(self, server: ScriptedServer, caller: Caller, case: Case, log: _Log) -> None:
        self.server, self.caller, self.case, self.log = server, caller, case, log
        self.steps: list[Step] = []
        self.held: Any = None

    def play(self, word: str) -> bool:
        """Whether the next step can follow."""
        if word == "pause":
            time.sleep(_PAUSE)
            return True
        if word == "together":
            self.steps.append(self._together())
        elif word == "hold":
            step = self._bounded(self._hold)
            if step.outcome != "answer":
                self.steps.append(step)
        else:
            act = self._leave if word == "leave" else lambda: self._ask(word)
            with self.server.call() as call:
                step = self._bounded(act)
                call.is_abandoned = step.outcome in ("left", "unnoticed")
                call.text = step.got.text if step.got and not call.is_abandoned else None
                call.error = step.raised
            if step.outcome in ("answer", "altered", "part", "nothing"):
                self.server.settle(patience=_SETTLE)  # the reply may still be ending
            entries = [one for one in self.server.journal.entries() if one.scope == call.number]
            step.attempts = len(entries)
            step.had_end = bool(entries) and read_sent(entries[-1]).has_end
            self.steps.append(step)
        return not self.steps or self.steps[-1].outcome != "waiting"

    def facts(self) -> Facts:
        counters = self.server.counters()
        entries = self.server.journal.entries()
        asked = [entry.asked_real for entry in entries]
        return Facts(
            steps=self.steps,
            connections=counters.connections_opened,
            findings=tuple(self.server.verdict().names),
            keys={entry.header("idempotency-key") for entry in entries},
            gap=asked[1] - asked[0] if len(asked) > 1 else None,
        )

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the server is gone, and so may be the sockets
            self.caller.close()

    def _bounded(self, act: Callable[[], Step]) -> Step:
        """What becomes of it, within the case's patience; what waits longer is left alone."""
        done: list[Step] = []
        thread = threading.Thread(target=lambda: done.append(self._judged(act)), daemon=True)
        with self.log.of(thread):
            thread.start()
            thread.join(self.case.patience)
        return done[0] if done else Step("waiting")

    def _judged(self, act: Callable[[], Step]) -> Step:
        try:
            return act()
        except BaseException as error:
            return self._failed(error)

    def _failed(self, error: BaseException) -> Step:
        kind = type(error)
        is_own = isinstance(error, self.caller.own_errors) or self._is_refusal(error)
        package = kind.__module__.partition(".")[0]
        name = kind.__name__ if is_own or package == "builtins" else f"{package}.{kind.__name__}"
        status = getattr(error, "status_code", getattr(error, "status", None))
        has_part = getattr(error, "partial", None) is not None
        outcome: Outcome = "error" if is_own else "foreign"
        return Step(outcome, None, name, status, has_part, raised=error)

    def _is_refusal(self, error: BaseException) -> bool:
        """Whether the client's own code raised it for what it was given."""
        if type(error) is not ValueError or error.__traceback__ is None:
            return False
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        return package == self.caller.package

    def _ask(self, word: str) -> Step:
        case = self.case
        got = self.caller.ask(Sent(self._asked(word), case.stream, case.helper))
        return Step(_outcome(got, case), got)

    def _asked(self, word: str) -> list[dict[str, Any]]:
        user = {"large": "x" * 300_000, "half": "half a pair: \ud83d"}.get(word, "hi")
        messages: list[dict[str, Any]] = [{"role": "user", "content": user}]
        if word == "reply":
            last = self.steps[-1].got
            answer = {"role": "assistant", "content": last.text if last else ""}
            messages = [*messages, answer, {"role": "user", "content": "and then?"}]
        if word == "marked":
            block = {"type": "text", "text": "hi", "cache_control": _MARK}
            messages = [{"role": "user", "content": [block] * 5}]
        if word == "unordered":
            ttls = ("5m", "1h")
            blocks = [
                {"type": "text", "text": t, "cache_control": _MARK | {"ttl": t}} for t in ttls
            ]
            messages = [{"role": "user", "content": blocks}]
        return messages

    def _leave(self) -> Step:
        pieces = self.caller.pieces(Sent(self._asked("ask"), stream=True, helper=False))
        text = next(pieces)
        pieces.close()  # type: ignore[attr-defined]  # a generator, whose close leaves the stream
        end = time.monotonic() + _LEFT_SECONDS
        while time.monotonic() < end:
            if self.server.journal.entries()[-1].how == "abandoned":
                return Step("left", Got(text))
            time.sleep(0.01)
        return Step("unnoticed", Got(text))

    def _hold(self) -> Step:
        self.held = self.caller.open(Sent(self._asked("ask"), stream=True, helper=False))
        return Step("answer")

    def _together(self) -> Step:
        steps: list[Step] = []

        def one() -> None:
            steps.append(self._bounded(lambda: self._ask("ask")))

        threads = [threading.Thread(target=one, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return max(steps, key=lambda step: step.outcome != "answer")


def _outcome(got: Got, case: Case) -> Outcome:
    if got.text == case.text and got.calls == case.calls and case.usage in (..., got.usage):
        return "answer"
    if not got.text and not got.calls:
        return "nothing"
    is_part = case.text.startswith(got.text) and got.calls == case.calls[: len(got.calls)]
    return "part" if is_part and (got.text, got.calls) != (case.text, case.calls) else "altered"


class _Log(logging.Handler):
    """Lines that the threads of one run have logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.has_warned = False
        self._threads: list[threading.Thread] = []

    @contextlib.contextmanager
    def of(self, thread: threading.Thread) -> Iterator[None]:
        self._threads.append(thread)
        yield

    def emit(self, record: logging.LogRecord) -> None:
        if any(record.thread == thread.ident for thread in self._threads):
            self.lines.append(record.getMessage())
            self.has_warned = self.has_warned or record.levelno >= logging.WARNING


@contextlib.contextmanager
def _logged(is_wanted: bool, names: Sequence[str] = _LOGGERS) -> Iterator[_Log]:
    log = _Log()
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addHandler(log)
        if is_wanted:
            logger.setLevel(logging.DEBUG)
    try:
        yield log
    finally:
        for logger in loggers:
            logger.removeHandler(log)
            if is_wanted:
                logger.setLevel(logging.NOTSET)
