"""The body of a reply, read by blocking or by awaiting.

`Body` and `AsyncBody` have the same methods in the same order; what they decide stands in
`intake.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from .. import _observers
from .._call import Attempt, Headers, Reply
from .._clock import Clock
from .._errors import ExchangeError
from .._flow import Effect, Flow, Outcome, Tap, finish
from .intake import Chunk, Intake
from .network_stream import NetworkStream
from .patience import Patience

__all__ = ["AsyncBody", "AsyncResponse", "Body", "Response"]


class Response(Protocol):
    """What a connection gives: the head of a reply and its bytes."""

    status: int
    reason: str
    headers: Headers
    protocol: str

    def read(self) -> bytes: ...

    def close(self, *, finished: bool = False) -> None: ...

    def cut(self) -> None: ...

    def abandon(self) -> None: ...


class AsyncResponse(Protocol):
    """The same for async code."""

    status: int
    reason: str
    headers: Headers
    protocol: str

    async def read(self) -> bytes: ...

    async def close(self, *, finished: bool = False) -> None: ...

    def cut(self) -> None: ...

    def abandon(self) -> None: ...


class _Ending:
    """How a body ends: once, with its attempt's record closed and its taps' last flows due."""

    def __init__(
        self,
        response: Response | AsyncResponse,
        reply: Reply,
        attempt: Attempt,
        patience: Patience,
        clock: Clock,
        leftovers: deque[Flow[None]],
    ) -> None:
        self._response = response
        self._patience = patience
        self.intake = Intake(reply, clock, attempt)
        patience.head(is_stream=self.intake.is_events)
        self.is_over = False
        self._attempt, self._clock = attempt, clock
        self._leftovers = leftovers

    @property
    def extensions(self) -> dict[str, Any]:
        """What else is known of the reply, in the words of httpx."""
        present = getattr(self._response, "extensions", None)
        if isinstance(present, dict):
            return present
        carrier = self._attempt.timeline.carrier
        return {} if carrier is None else {"network_stream": NetworkStream(carrier)}

    def cut(self) -> None:
        """Drop the connection at once; never blocks."""
        self._response.cut()
        self._drop()

    def __del__(self) -> None:
        # Anywhere: in any thread, in one that holds a lock, when the loop is closed.
        if not self.is_over:
            self._response.abandon()
            self._drop()

    def _over(self, outcome: Outcome) -> list[Flow[None]]:
        """The flows that are due now; none the second time."""
        if self.is_over:
            return []
        self.is_over = True
        self.intake.settle(outcome)
        self._attempt.end(outcome.at)
        return [_last(tap, outcome) for tap in self.intake.take_taps()]

    def _came(self, data: bytes) -> Chunk | None:
        """What the next bytes from the connection are; `None` for its end."""
        if data:
            return self._taken(self.intake.take(data))
        self.intake.end()
        failure = self.intake.failure
        if failure is not None and failure.kind == "incomplete":
            self._attempt.error, self._attempt.maybe_processed = failure.kind, True
        return None

    def _taken(self, chunk: Chunk) -> Chunk:
        self._patience.came(content=chunk.has_content, whole=self.intake.terminal)
        return chunk

    def _broke(self, error: ExchangeError) -> list[Flow[None]]:
        self._attempt.error = error.kind
        self._attempt.maybe_processed = error.maybe_processed
        return self._over(Outcome("failed", self._clock.monotonic(), error.kind))

    def _drop(self) -> None:
        """End for a reader that is gone; what is due is done at the next call."""
        self._leftovers.extend(self._over(self.intake.left()))


def _last(tap: Tap, outcome: Outcome) -> Flow[None]:
    try:
        yield from tap.after(outcome)
    except Exception:  # an observer must not break the reply that it observes
        _observers.failed("a tap failed at the end of a body", tap)


class Body(_Ending):
    """A body, by blocking.

    Args:
        run: Runs a flow that yields no reply on from its first effect.
    """

    _response: Response

    def __init__(
        self,
        response: Response,
        reply: Reply,
        attempt: Attempt,
        patience: Patience,
        clock: Clock,
        leftovers: deque[Flow[None]],
        run: Callable[[Flow[None], Effect], None],
    ) -> None:
        super().__init__(response, reply, attempt, patience, clock, leftovers)
        self._run = run

    def fetch(self) -> bool:
        """Hold back the next bytes from the connection; `False` at the end."""
        chunk = self._receive()
        if chunk is None:
            return False
        self.intake.hold(chunk)
        return True

    def begin(self) -> None:
        """Hold back the beginning, at most 64 KiB, for an error that tells what it is."""
        while self.intake.wants_error_body and self.fetch():
            pass

    def next(self) -> Chunk | None:
        """Hand on the next chunk; `None` at the end."""
        if self.is_over:
            return None
        intake = self.intake
        chunk = intake.take_held() if intake.held else self._receive()
        if chunk is None:
            intake.deliver_end()
            self._run_all(self._over(intake.ended()))
        else:
            intake.deliver(chunk)
        return chunk

    def close(self) -> None:
        """Give the connection back if nothing of the answer is missing, else cut it."""
        flows = self._over(self.intake.left())
        try:
            self._response.close(finished=self.intake.is_answered)
        finally:
            self._run_all(flows or [finish(self._leftovers)])

    def fail(self, error: ExchangeError) -> None:
        """Drop the connection at once, because of `error` in what came from it."""
        self._response.cut()
        self._run_all(self._broke(error))

    def _receive(self) -> Chunk | None:
        """The next bytes from the connection, or what is left of the last; `None` at the end."""
        try:
            self._patience.begin()
            rest = self.intake.rest()
            return self._came(self._response.read()) if rest is None else self._taken(rest)
        except ExchangeError as error:
            self.fail(error)
            raise
        except BaseException:
            self.cut()
            raise

    def _run_all(self, flows: list[Flow[None]]) -> None:
        for flow in flows:
            for effect in flow:  # most have none
                self._run(flow, effect)


class AsyncBody(_Ending):
    """A body, by awaiting.

    Args:
        run: Runs a flow that yields no reply on from its first effect.
    """

    _response: AsyncResponse

    def __init__(
        self,
        response: AsyncResponse,
        reply: Reply,
        attempt: Attempt,
        patience: Patience,
        clock: Clock,
        leftovers: deque[Flow[None]],
        run: Callable[[Flow[None], Effect], Awaitable[None]],
    ) -> None:
        super().__init__(response, reply, attempt, patience, clock, leftovers)
        self._run = run

    async def fetch(self) -> bool:
        """Hold back the next bytes from the connection; `False` at the end."""
        chunk = await self._receive()
        if chunk is None:
            return False
        self.intake.hold(chunk)
        return True

    async def begin(self) -> None:
        """Hold back the beginning, at most 64 KiB, for an error that tells what it is."""
        while self.intake.wants_error_body and await self.fetch():
            pass

    async def next(self) -> Chunk | None:
        """Hand on the next chunk; `None` at the end."""
        if self.is_over:
            return None
        intake = self.intake
        chunk = intake.take_held() if intake.held else await self._receive()
        if chunk is None:
            intake.deliver_end()
            await self._run_all(self._over(intake.ended()))
        else:
            intake.deliver(chunk)
        return chunk

    async def close(self) -> None:
        """Give the connection back if nothing of the answer is missing, else cut it."""
        flows = self._over(self.intake.left())
        try:
            await self._response.close(finished=self.intake.is_answered)
        finally:
            await self._run_all(flows or [finish(self._leftovers)])

    async def fail(self, error: ExchangeError) -> None:
        """Drop the connection at once, because of `error` in what came from it."""
        self._response.cut()
        await self._run_all(self._broke(error))

    async def _receive(self) -> Chunk | None:
        """The next bytes from the connection, or what is left of the last; `None` at the end."""
        try:
            self._patience.begin()
            rest = self.intake.rest()
            if rest is None:
                return self._came(await self._response.read())
            # A small body may go on for long without its coding: others have their turn.
            await self._clock.sleep_async(0.0)
            return self._taken(rest)
        except ExchangeError as error:
            await self.fail(error)
            raise
        except BaseException:
            self.cut()
            raise

    async def _run_all(self, flows: list[Flow[None]]) -> None:
        for flow in flows:
            for effect in flow:  # most have none
                await self._run(flow, effect)
