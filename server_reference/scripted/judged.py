"""What a test asks a scripted server about its client: counters, verdict, assertions."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from .counters import Counters
from .entries import Entry
from .journal import Journal
from .scope import CallScope
from .watch import Watch

if TYPE_CHECKING:
    from .verdict import Verdict

__all__ = ["Judged"]

_PINGS = 3
_PING_SECONDS = 2.0
_PATIENCE = 0.25
_PAUSE = 0.005
_REAL = 5.0
_IN_A_LOOP = ", or could not while its event loop waits: use await asyncio.to_thread(...)"


class Judged:
    """The part of a server's handle that tells about its client; for use from any thread.

    Args:
        watch: The server's.
        ping: Runs a callable on the server's thread, after what its sockets have brought.
    """

    def __init__(self, watch: Watch, ping: Callable[[Callable[[], object]], object]) -> None:
        self._watch = watch
        self._ping = ping

    @property
    def journal(self) -> Journal:
        """Every request and what was answered, once the server has seen what its sockets hold."""
        self.settle()
        return self._watch.journal

    def call(self, *, user: str | None = None) -> CallScope:
        """Watch one call: `with server.call() as c: c.text = ask()`.

        Args:
            user: A part of its last user message, where several calls run at once.
        """
        return self._watch.scopes.new(user)

    def counters(self) -> Counters:
        """The counts, once the server has seen what its sockets hold."""
        self.settle()
        return self._watch.counters()

    def verdict(self, *, max_attempts: int = 5, ignore: Collection[str] = ()) -> Verdict:
        """Judge the client by all that is in the journal.

        Args:
            max_attempts: How many tries of one call are in order.
            ignore: Names of rules to leave out.

        Raises:
            ValueError: A name is no rule's.
        """
        from .evidence import Evidence
        from .verdict import judge

        blind_since = time.monotonic() if _is_in_a_loop() else None
        self.settle(patience=_PATIENCE)
        journal = self._watch.journal
        evidence = Evidence(
            journal.entries(),
            journal.connections(),
            self._watch.scopes.all(),
            max_attempts=max_attempts,
            is_real_time=abs(self._watch.clock.now() - time.time()) < _REAL,
            blind_since=blind_since,
            is_key=journal.is_same_credential,
        )
        return judge(evidence, ignore=ignore)

    def assert_attempts(self, num_attempts: int, *, call: int | None = None) -> None:
        """Fail unless the call was tried so often.

        Args:
            call: Its number; `None` takes the only one there is.

        Raises:
            AssertionError: It was tried more or less often; the message says what came.
        """
        entries = self.journal.entries()
        calls = sorted({entry.call for entry in entries})
        if call is None and len(calls) != 1:
            what = "no call came" if not calls else f"{len(calls)} calls came, so say which"
            raise AssertionError(
                f"{what}; expected one with {num_attempts} attempts{_listed(entries)}"
            )
        tries = [entry for entry in entries if call is None or entry.call == call]
        if len(tries) != num_attempts:
            which = "the call" if call is None else f"call {call}"
            raise AssertionError(
                f"{which} was tried {len(tries)} times, not {num_attempts}{_listed(tries)}"
            )

    def assert_reused(self, *, connections: int | None = None) -> None:
        """Fail unless the client reused its connections.

        Args:
            connections: How many are in order; `None` is as many as requests were under way
                at once.

        Raises:
            AssertionError: It opened more, or sent fewer than two requests.
        """
        counted = self.counters()
        if counted.requests < 2:
            raise AssertionError(
                f"{counted.requests} request came, so nothing could be reused; send at least 2"
            )
        most = counted.streams_max if connections is None else connections
        used = {entry.connection for entry in self.journal.entries()}
        if len(used) > most:
            closed = ", ".join(f"{n} by {who}" for who, n in counted.closed_by.items()) or "none"
            raise AssertionError(
                f"{counted.requests} requests came over {len(used)} connections, at most {most} "
                f"would do ({counted.streams_max} requests were under way at once); "
                f"closed: {closed}{_listed(self.journal.entries())}"
            )

    def assert_no_leaks(self, *, idle: int | None = None) -> None:
        """Fail if a reply is still under way, or more connections are open than are of use.

        Args:
            idle: How many may be open; 0 after the client was closed. `None` is as many as
                requests were ever under way at once.

        Raises:
            AssertionError: Something leaked.
        """
        self.settle(patience=_PATIENCE, until=self._is_quiet_with(idle))
        counted = self.counters()
        under_way = [entry for entry in self._watch.journal.entries() if entry.how is None]
        if under_way:
            raise AssertionError(
                f"{len(under_way)} replies are still under way; whoever asked neither read them "
                f"to the end nor closed{_IN_A_LOOP * _is_in_a_loop()}{_listed(under_way)}"
            )
        most = counted.streams_max if idle is None else idle
        if counted.connections_open > most:
            raise AssertionError(
                f"{counted.connections_open} connections are open and idle, at most {most} are "
                f"in order; {counted.connections_opened} were opened for {counted.requests} "
                "requests: close the client, and keep one"
            )

    def forget(self) -> None:
        """Forget what was seen; what is open or under way stays known."""
        self.settle()
        self._watch.reset()

    def settle(self, *, patience: float = 0.0, until: Callable[[], bool] | None = None) -> None:
        """Wait until the server has seen what its sockets hold.

        Args:
            patience: Seconds to wait, at most, for what `until` says; without it for every
                reply to be over.
        """
        is_done = until or (lambda: self._watch.journal.num_in_flight == 0)
        end = time.monotonic() + patience
        while True:
            has_answered = all(self._round_trip() for _ in range(_PINGS))
            if not has_answered or is_done() or time.monotonic() >= end:
                return
            time.sleep(_PAUSE)

    def _round_trip(self) -> bool:
        passed = threading.Event()
        try:
            self._ping(passed.set)
        except RuntimeError:  # the server has stopped: nothing more can come
            return False
        return passed.wait(_PING_SECONDS)

    def _is_quiet_with(self, idle: int | None) -> Callable[[], bool]:
        def is_quiet() -> bool:
            counted = self._watch.counters()
            most = counted.streams_max if idle is None else idle
            return self._watch.journal.num_in_flight == 0 and counted.connections_open <= most

        return is_quiet


def _is_in_a_loop() -> bool:
    """Whether an event loop, perhaps the client's, stands still as long as the caller waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _listed(entries: list[Entry]) -> str:
    """Lines that show requests, the newest ten."""
    if not entries:
        return ""
    kinds = Counter(entry.call for entry in entries)
    lines = [
        f"  request {entry.number}: call {entry.call} (attempt {entry.attempt} of "
        f"{kinds[entry.call]}), {entry.method} {entry.target}, connection {entry.connection}, "
        f"answered {entry.status}, {entry.how or 'under way'}"
        for entry in entries[-10:]
    ]
    return ":\n" + "\n".join(lines)
