"""The attempts of one call of an SDK: each sent from its transport, or prepared by it anew.

An SDK that signs its requests, or asks for a fresh credential for each, has to be entered once
per attempt. The flow then waits where it is: `Paused` leaves the SDK's `request`, which
`wrap` enters again, and what comes down is what the flow goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import copy
from typing import Any

import msgspec
from msgspec import Struct

from .._call import Call, Reply
from .._flow import Effect, Exchange, Flow
from .._pipeline import Pipeline
from .driver import AsyncConnector, AsyncPerformer, Connector, Paused, Performer

__all__ = [
    "RETRY_COUNT",
    "AsyncAttempts",
    "Attempts",
    "CallContext",
    "Underway",
    "call_context",
]

RETRY_COUNT = "x-stainless-retry-count"
"""In which both SDKs tell the server how often a call was sent before."""


class Underway(Struct):
    """A call in the policies.

    Attributes:
        made: The call as the SDK made it first.
        wanted: The call as our policies want it sent next, while they wait for the SDK to
            prepare that; `None` before they begin.
    """

    flow: Flow[Reply]
    made: Call
    wanted: Call | None = None

    @property
    def pending(self) -> Effect | None:
        return None if self.wanted is None else Exchange(self.wanted)


class CallContext(Struct):
    """One call of an SDK: what its transport needs to know of it.

    Attributes:
        pipeline: Whose call it is: another client that is used meanwhile has calls of its own.
        max_retries: `None` leaves it to the settings.
        sdk: The package whose `APIConnectionError` an error in a stream has to be, where
            the SDK does not see to that itself.
        is_prepared: The SDK prepares each attempt: it must be entered once for each.
        renew: Makes the SDK drop the credential that it keeps, when a reply has refused it.
        waiting: The call that goes on when the SDK is entered again.
        applied: The payload whose edits the SDK has been given.
    """

    pipeline: Pipeline
    max_retries: int | None
    started: float
    sdk: str = ""
    is_prepared: bool = False
    renew: Callable[[], None] | None = None
    waiting: Underway | None = None
    applied: Any = None

    def enter(self, made: Call, begin: Callable[[Call], Flow[Reply]]) -> Underway:
        """The call that waits for `made`, or a new one: another hop of a redirect is one."""
        waiting = self.waiting
        if waiting is None or _address(waiting.made) != _address(made):
            self.applied = made.payload
            return Underway(begin(made), made)
        self.waiting = None
        return waiting

    def learn(self, reply: Reply) -> None:
        """Hear of an attempt's reply: a kept credential that it refuses is of no more use."""
        if reply.status == 401 and self.renew is not None:
            self.renew()

    def prepare(self, options: Any) -> Any:
        """The SDK's `options` for the attempt that is waited for: a copy with our edits."""
        waiting, options = self.waiting, copy(options)
        if waiting is None or waiting.wanted is None:  # another layer asked for it: as it was
            return options
        wanted = waiting.wanted
        _edit(options, waiting.made.payload or {}, wanted.payload or {})
        self.applied = wanted.payload
        number = len(wanted.trace.attempts)
        if number:
            own = options.headers if isinstance(options.headers, Mapping) else {}
            options.headers = {RETRY_COUNT: str(number), **own}
        return options

    def give_up(self, error: BaseException | None) -> None:
        """Tell a call that still waits that the SDK failed before it could go on."""
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            return
        try:
            waiting.flow.throw(error or GeneratorExit())
        except BaseException as raised:  # the same, when the policies have seen it
            if raised is not error and not isinstance(raised, (GeneratorExit, StopIteration)):
                raise
        finally:
            waiting.flow.close()


call_context: ContextVar[CallContext | None] = ContextVar("smartclient_call", default=None)


def _address(call: Call) -> tuple[Any, ...]:
    return call.method, call.origin, call.target.partition("?")[0]


def _edit(options: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Put into an SDK's `options` what our policies changed in the body that it had made."""
    changed = {name: value for name, value in after.items() if before.get(name, ...) != value}
    gone = before.keys() - after.keys()
    for field in ("json_data", "extra_json"):  # the second is laid over the first
        present = getattr(options, field, None)
        if isinstance(present, Mapping):
            kept = {name: value for name, value in present.items() if name not in gone}
            setattr(options, field, {**kept, **changed})


class _Entry:
    """One entry into the SDK's `request`: `made` is the call as it came down from there."""

    def __init__(self, pipeline: Pipeline, context: CallContext, made: Call) -> None:
        self._context, self._made, self._is_used = context, made, False
        self.underway = context.enter(made, pipeline.flow)

    def prepared(self, wanted: Call) -> Call:
        """`wanted` in the request that the SDK made for it; that is never edited once signed.

        Raises:
            Paused: The SDK has to make it first.
        """
        context, made = self._context, self._made
        if not context.is_prepared:
            return _counted(wanted)
        if self._is_used or wanted.payload is not context.applied:
            self.underway.wanted, context.waiting = wanted, self.underway
            raise Paused
        self._is_used = True
        return msgspec.structs.replace(
            wanted, origin=made.origin, target=made.target, headers=made.headers, body=made.body
        )


def _counted(call: Call) -> Call:
    """`call`, which says how often it was sent before, if its SDK says so."""
    number = len(call.trace.attempts)
    if not number or call.headers.get(RETRY_COUNT) is None:
        return call
    headers = call.headers.replaced(x_stainless_retry_count=str(number))
    return msgspec.structs.replace(call, headers=headers)


class Attempts(Performer):
    """Does what the flow of an SDK's call asks, by blocking."""

    def __init__(
        self, connector: Connector, pipeline: Pipeline, context: CallContext, made: Call
    ) -> None:
        self._context, self._entry = context, _Entry(pipeline, context, made)
        trace = self._entry.underway.made.trace
        super().__init__(connector, trace, pipeline.clock, pipeline.leftovers)

    def send(self) -> Reply:
        """Take the call through the policies, or on from where they wait."""
        underway = self._entry.underway
        return self.run(underway.flow, underway.pending)

    def exchange(self, call: Call) -> Reply:
        reply = super().exchange(self._entry.prepared(call))
        self._context.learn(reply)
        return reply


class AsyncAttempts(AsyncPerformer):
    """Does what the flow of an SDK's call asks, by awaiting."""

    def __init__(
        self, connector: AsyncConnector, pipeline: Pipeline, context: CallContext, made: Call
    ) -> None:
        self._context, self._entry = context, _Entry(pipeline, context, made)
        trace = self._entry.underway.made.trace
        super().__init__(connector, trace, pipeline.clock, pipeline.leftovers)

    async def send(self) -> Reply:
        """Take the call through the policies, or on from where they wait."""
        underway = self._entry.underway
        return await self.run(underway.flow, underway.pending)

    async def exchange(self, call: Call) -> Reply:
        reply = await super().exchange(self._entry.prepared(call))
        self._context.learn(reply)
        return reply
