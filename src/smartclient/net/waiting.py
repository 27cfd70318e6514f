"""Waiting for one's turn on an asyncio loop, with a limit that costs no timer per wait."""

from __future__ import annotations

import asyncio

__all__ = ["Awaited", "settle"]


def settle(future: asyncio.Future[None]) -> None:
    """Let whoever waits for `future` go on, if nobody did before."""
    if not future.done():
        future.set_result(None)


class Awaited:
    """Something that one task at a time waits for.

    There is one timer, moved when it fires, instead of one per wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    async def wait(self, timeout: float | None) -> None:
        """Wait until something happens.

        Raises:
            TimeoutError: Nothing did for `timeout` seconds.
        """
        # One that is done belongs to a reader who has not run yet, of a reply that is complete.
        if self._waiter is not None and not self._waiter.done():
            raise RuntimeError("another task reads this reply already; let one task read it")
        waiter = self._waiter = self.loop.create_future()
        if timeout is not None:
            self._deadline = self.loop.time() + timeout
            self._set_timer()
        else:
            self._deadline = float("inf")
        try:
            await waiter
        finally:
            if self._waiter is waiter:
                self._waiter = None
            del waiter  # it has the error, whose traceback has this frame

    def notify(self) -> None:
        """Something happened: whoever waits goes on."""
        if self._waiter is not None:
            settle(self._waiter)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self.loop.time() >= self._deadline:
            waiter.set_exception(TimeoutError())
        elif self._deadline != float("inf"):
            self._set_timer()
