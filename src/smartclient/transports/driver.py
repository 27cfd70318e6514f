"""The two loops that run a flow, and what they do for each effect.

`Performer` and `AsyncPerformer` have the same methods in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, assert_never

from .._call import Attempt, Call, Reply, Span, Timeline, Trace
from .._clock import Clock
from .._errors import ExchangeError
from .._flow import Ask, Close, Effect, Exchange, Flow, Park, Peek, Read, Sleep
from ..wire import Failure
from ..wire.usage import asked_of
from .body import AsyncBody, AsyncResponse, Body, Response
from .intake import Chunk
from .patience import Patience

__all__ = [
    "AsyncConnector",
    "AsyncPerformer",
    "Connector",
    "Paused",
    "Performer",
    "drive",
    "drive_async",
]

T = TypeVar("T")


class Paused(BaseException):
    """Raised by a performer that cannot answer now: its flow stays where it waits."""


def drive(flow: Flow[T], perform: Callable[[Effect], Any], pending: Effect | None = None) -> T:
    """Run `flow` to its end, by blocking; `pending` is what a paused one waits for."""
    failure: BaseException | None = None
    try:
        effect = next(flow) if pending is None else pending
        while True:
            try:
                answer = perform(effect)
            except Paused:
                raise
            except BaseException as error:
                failure = error
            if failure is None:
                effect = flow.send(answer)
            else:
                effect, failure = flow.throw(failure), None
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        failure = None  # it may hold a traceback that holds this frame


async def drive_async(
    flow: Flow[T], perform: Callable[[Effect], Awaitable[Any]], pending: Effect | None = None
) -> T:
    """Run `flow` to its end, by awaiting; `pending` is what a paused one waits for."""
    failure: BaseException | None = None
    try:
        effect = next(flow) if pending is None else pending
        while True:
            try:
                answer = await perform(effect)
            except Paused:
                raise
            except BaseException as error:
                failure = error
            if failure is None:
                effect = flow.send(answer)
            else:
                effect, failure = flow.throw(failure), None
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        failure = None  # it may hold a traceback that holds this frame


class Connector(Protocol):
    """Carries one exchange: our own connections, or a transport that the user brought."""

    def exchange(self, call: Call, timeline: Timeline) -> Response: ...


class AsyncConnector(Protocol):
    """The same for async code."""

    async def exchange(self, call: Call, timeline: Timeline) -> AsyncResponse: ...


class _Performing:
    """What both performers know: the call's record, and what dropped bodies left to do."""

    def __init__(self, trace: Trace, clock: Clock, leftovers: deque[Flow[None]]) -> None:
        self._trace, self._clock, self._leftovers = trace, clock, leftovers

    def _begin(self, call: Call) -> Attempt:
        at = self._clock.monotonic()
        if self._trace.prepared is None:
            self._trace.prepared = at
        attempt = self._trace.begin(call.origin, at=at)
        attempt.model, attempt.asked = call.model, asked_of(call.payload)
        return attempt

    def _failed(self, attempt: Attempt, error: ExchangeError) -> None:
        attempt.error, attempt.maybe_processed = error.kind, error.maybe_processed
        attempt.end(self._clock.monotonic())

    def _reply(self, call: Call, response: Response | AsyncResponse, attempt: Attempt) -> Reply:
        attempt.status = response.status
        return Reply(
            status=response.status,
            headers=response.headers,
            call=call,
            reason=response.reason,
            protocol=response.protocol,
        )

    def _slept(self, start: float) -> None:
        self._trace.backoffs += (Span(start, self._clock.monotonic()),)


class Performer(_Performing):
    """Does what a flow asks, by blocking."""

    def __init__(
        self, connector: Connector, trace: Trace, clock: Clock, leftovers: deque[Flow[None]]
    ) -> None:
        super().__init__(trace, clock, leftovers)
        self._connector = connector

    def __call__(self, effect: Effect) -> Any:
        match effect:
            case Exchange(call):
                return self.exchange(call)
            case Peek(reply):
                return self.peek(reply)
            case Read(reply, limit):
                return self.read(reply, limit)
            case Close(reply):
                return reply.handle.close()
            case Sleep(seconds):
                return self.sleep(seconds)
            case Park(latch, timeout):
                return latch.wait(timeout)
            case Ask(store, operation):
                return store.do(operation)
            case _:
                assert_never(effect)

    def run(self, flow: Flow[T], pending: Effect | None = None) -> T:
        """Run a flow to its end, from its beginning or from what it waits for."""
        return drive(flow, self, pending)

    def exchange(self, call: Call) -> Reply:
        attempt = self._begin(call)
        patience = Patience(call, attempt, attempt.started)
        try:
            patience.begin()
            response = self._connector.exchange(call, attempt.timeline)
        except ExchangeError as error:
            self._failed(attempt, error)
            raise
        except BaseException:  # cancelled, for one
            attempt.end(self._clock.monotonic())
            raise
        reply = self._reply(call, response, attempt)
        reply.handle = Body(
            response, reply, attempt, patience, self._clock, self._leftovers, self.run
        )
        return reply

    def peek(self, reply: Reply) -> Failure | None:
        body: Body = reply.handle
        if reply.status >= 400:
            body.begin()
            return body.intake.error_reply()
        while not body.intake.is_decided and body.fetch():
            pass
        return body.intake.failure

    def read(self, reply: Reply, limit: int) -> bytes:
        body: Body = reply.handle
        pieces, size = [], 0
        while (chunk := body.next()) is not None:
            try:
                pieces.append(_readable(chunk, reply, room=limit - size, limit=limit))
            except ExchangeError as error:
                body.fail(error)
                raise
            size += len(pieces[-1])
        _check_end(reply)
        return b"".join(pieces)

    def sleep(self, seconds: float) -> None:
        start = self._clock.monotonic()
        self._clock.sleep(seconds)
        self._slept(start)


class AsyncPerformer(_Performing):
    """Does what a flow asks, by awaiting."""

    def __init__(
        self, connector: AsyncConnector, trace: Trace, clock: Clock, leftovers: deque[Flow[None]]
    ) -> None:
        super().__init__(trace, clock, leftovers)
        self._connector = connector

    async def __call__(self, effect: Effect) -> Any:
        match effect:
            case Exchange(call):
                return await self.exchange(call)
            case Peek(reply):
                return await self.peek(reply)
            case Read(reply, limit):
                return await self.read(reply, limit)
            case Close(reply):
                return await reply.handle.close()
            case Sleep(seconds):
                return await self.sleep(seconds)
            case Park(latch, timeout):
                return await latch.wait_async(timeout)
            case Ask(store, operation) if store.is_quick:
                return store.do(operation)
            case Ask(store, operation):
                return await store.do_async(operation)
            case _:
                assert_never(effect)

    async def run(self, flow: Flow[T], pending: Effect | None = None) -> T:
        """Run a flow to its end, from its beginning or from what it waits for."""
        return await drive_async(flow, self, pending)

    async def exchange(self, call: Call) -> Reply:
        attempt = self._begin(call)
        patience = Patience(call, attempt, attempt.started)
        try:
            patience.begin()
            response = await self._connector.exchange(call, attempt.timeline)
        except ExchangeError as error:
            self._failed(attempt, error)
            raise
        except BaseException:  # cancelled, for one
            attempt.end(self._clock.monotonic())
            raise
        reply = self._reply(call, response, attempt)
        reply.handle = AsyncBody(
            response, reply, attempt, patience, self._clock, self._leftovers, self.run
        )
        return reply

    async def peek(self, reply: Reply) -> Failure | None:
        body: AsyncBody = reply.handle
        if reply.status >= 400:
            await body.begin()
            return body.intake.error_reply()
        while not body.intake.is_decided and await body.fetch():
            pass
        return body.intake.failure

    async def read(self, reply: Reply, limit: int) -> bytes:
        body: AsyncBody = reply.handle
        pieces, size = [], 0
        while (chunk := await body.next()) is not None:
            try:
                pieces.append(_readable(chunk, reply, room=limit - size, limit=limit))
            except ExchangeError as error:
                await body.fail(error)
                raise
            size += len(pieces[-1])
        _check_end(reply)
        return b"".join(pieces)

    async def sleep(self, seconds: float) -> None:
        start = self._clock.monotonic()
        await self._clock.sleep_async(seconds)
        self._slept(start)


def _check_end(reply: Reply) -> None:
    """Raise when the body's end is none by its content-encoding."""
    broken = reply.handle.intake.broken
    if broken is not None:
        origin = str(reply.call.origin)
        raise ExchangeError(str(broken), kind="protocol", sent="all", origin=origin)


def _readable(chunk: Chunk, reply: Reply, *, room: int, limit: int) -> bytes:
    """What is in `chunk`, if it can be read and fits."""
    origin = str(reply.call.origin)
    if chunk.decoded is None:
        why = str(chunk.broken or reply.handle.intake.unknown)
        raise ExchangeError(why, kind="protocol", sent="all", origin=origin)
    if len(chunk.decoded) > room:
        raise ExchangeError(
            f"the reply of {origin} is longer than the {limit:,} bytes that were expected; "
            "read it as a stream",
            kind="limit",
            sent="all",
            origin=origin,
        )
    return chunk.decoded
