"""One call as its caller sees it: `with server.call() as c:`, and what became of it."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

from .request import Received

__all__ = ["CallScope", "Scopes"]

_MOST = 10_000


class CallScope:
    """All requests that come while it is open are tries of one call.

    Report what the code under test made of it: set `text`, or `error`, or `is_abandoned`. An
    exception that leaves the block is its `error`.

    Attributes:
        number: From 1.
        text: The answer as the caller got it, taken for whole.
        error: The exception that the caller got.
        is_abandoned: Whether the caller stopped reading on purpose.
        ended_at: When the block was left, on the machine's monotonic clock.
    """

    def __init__(self, scopes: Scopes, number: int, user: str | None) -> None:
        self.number = number
        self.user = user
        self.text: str | None = None
        self.error: BaseException | None = None
        self.is_abandoned = False
        self.ended_at: float | None = None
        self._scopes = scopes

    def outcome(
        self,
        text: str | None = None,
        *,
        error: BaseException | None = None,
        abandoned: bool = False,
    ) -> None:
        """Report all at once.

        Raises:
            ValueError: More than one of them is given, or none.
        """
        if (text is not None) + (error is not None) + abandoned != 1:
            raise ValueError(
                "a call ends in one way: give a text, an error, or abandoned=True; "
                f"not text={text!r}, error={_kind(error)}, abandoned={abandoned}"
            )
        self.text, self.error, self.is_abandoned = text, error, abandoned

    def takes(self, received: Received) -> bool:
        """Whether a request belongs here."""
        return self.user is None or self.user in (received.last_user_text or "")

    def __enter__(self) -> Self:
        self._scopes.open(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ended_at = time.monotonic()
        self._scopes.close(self)
        if error is not None and self.error is None:
            self.error = error


def _kind(error: BaseException | None) -> str | None:
    """Never its text, which may hold a key."""
    return None if error is None else type(error).__name__


class Scopes:
    """The calls that a test watches."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._open: list[CallScope] = []
        self._all: deque[CallScope] = deque(maxlen=_MOST)

    def new(self, user: str | None) -> CallScope:
        return CallScope(self, next(self._numbers), user)

    def all(self) -> list[CallScope]:
        """Those that were opened, oldest first."""
        with self._lock:
            return list(self._all)

    def reset(self) -> None:
        with self._lock:
            self._all = deque(self._open, maxlen=_MOST)

    def open(self, scope: CallScope) -> None:
        with self._lock:
            if any(other.user in (None, scope.user) or not scope.user for other in self._open):
                raise RuntimeError(
                    "two calls are watched at once, and nothing tells their requests apart; "
                    'give each a part of its last user message: server.call(user="...")'
                )
            self._open.append(scope)
            self._all.append(scope)

    def close(self, scope: CallScope) -> None:
        with self._lock:
            self._open = [one for one in self._open if one is not scope]

    def of(self, received: Received) -> int | None:
        """The number of the scope that a request belongs to."""
        if not self._open:
            return None
        with self._lock:
            found = [one for one in self._open if one.takes(received)]
        # Of "question 1" and "question 10" the longer one is meant where both are found.
        return max(found, key=lambda one: len(one.user or "")).number if found else None
