"""Flows: generators that say what to do, for a driver that does it.

A policy yields an effect and is sent the answer. It never waits, reads or writes by
itself, so it exists once for blocking and for async code, and a test can play the driver.
`docs/explanation/flows.md` walks through one call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from ._call import Call, Reply
from ._latch import Latch
from .wire import Delta, Failure

if TYPE_CHECKING:  # most programs have no budget
    from .stores import Operation, Store

__all__ = [
    "Ask",
    "Close",
    "Effect",
    "Exchange",
    "Flow",
    "Next",
    "Outcome",
    "Park",
    "Peek",
    "Policy",
    "Read",
    "Sleep",
    "Tap",
    "ask",
    "close",
    "compose",
    "exchange",
    "finish",
    "park",
    "peek",
    "read",
    "sleep",
]

T = TypeVar("T")


class Exchange(Struct, frozen=True):
    """Send `call`; answered with a `Reply` whose body is still unread."""

    call: Call


class Peek(Struct, frozen=True):
    """Learn whether `reply` is a success; answered with a `Failure` or `None`.

    On an event stream of a known format, what comes is held back, up to 1 MiB, until the
    first content event, an error event or the end; it is replayed to whoever reads next.
    Any other 2xx is a success at once. From status 400 on the body is read, up to 64 KiB.
    """

    reply: Reply


class Read(Struct, frozen=True):
    """Read a whole body of at most `limit` bytes; answered with the bytes."""

    reply: Reply
    limit: int


class Close(Struct, frozen=True):
    """Give `reply`'s connection back, in bounded time; answered with nothing."""

    reply: Reply


class Sleep(Struct, frozen=True):
    """Wait `seconds`; answered with nothing."""

    seconds: float


class Park(Struct, frozen=True):
    """Wait for `latch`, at most `timeout` seconds; answered with whether it is set."""

    latch: Latch
    timeout: float | None


class Ask(Struct, frozen=True):
    """Have `store` do one operation; answered with what that answers."""

    store: Store
    operation: Operation


Effect: TypeAlias = Exchange | Peek | Read | Close | Sleep | Park | Ask
Flow: TypeAlias = Generator[Effect, Any, T]
Next: TypeAlias = Callable[[Call], Flow[Reply]]


class Outcome(Struct, frozen=True):
    """How a body ended.

    Attributes:
        kind: `complete`: with its terminal event, or in full. `incomplete`: it ended
            before that. `failed`: the connection broke, or the stream reported an error.
            `cut`: the reader left.
        error: Its kind, when it failed.
        at: When, in monotonic seconds.
    """

    kind: Literal["complete", "incomplete", "failed", "cut"]
    at: float
    error: str | None = None


class Tap(Protocol):
    """Watches a body flow by; never changes a byte of it.

    An exception in a tap silences the tap, not the stream.
    """

    def feed(self, delta: Delta, at: float) -> None:
        """See what came at `at` monotonic seconds, as it is handed to the reader."""
        ...

    def comment(self, text: str) -> None:
        """See an SSE comment."""
        ...

    def after(self, outcome: Outcome) -> Flow[None]:
        """Do what is due once the body has ended.

        Called at once, also by a finalizer, in whichever thread that runs; the flow is run
        when there is somebody to wait for it, which for a dropped body is the next call.
        """
        ...


class Policy(Protocol):
    """One rule about calls."""

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]: ...


def compose(policies: Sequence[Policy]) -> Next:
    """Nest `policies` around one exchange, the first of them outermost."""
    chain: Next = exchange
    for policy in reversed(policies):
        chain = partial(policy.flow, call_next=chain)
    return chain


def finish(leftovers: deque[Flow[None]]) -> Flow[None]:
    """Do what dropped bodies left to do."""
    while True:
        try:
            leftover = leftovers.popleft()
        except IndexError:  # asked for instead of looked for: threads share one client
            return
        yield from leftover


# The typed faces of the effects: `Any` ends here.


def exchange(call: Call) -> Flow[Reply]:
    reply: Reply = yield Exchange(call)
    return reply


def peek(reply: Reply) -> Flow[Failure | None]:
    failure: Failure | None = yield Peek(reply)
    return failure


def read(reply: Reply, *, limit: int) -> Flow[bytes]:
    body: bytes = yield Read(reply, limit)
    return body


def close(reply: Reply) -> Flow[None]:
    yield Close(reply)


def sleep(seconds: float) -> Flow[None]:
    yield Sleep(seconds)


def park(latch: Latch, timeout: float | None) -> Flow[bool]:
    is_set: bool = yield Park(latch, timeout)
    return is_set


def ask(store: Store, operation: Operation) -> Flow[Any]:
    return (yield Ask(store, operation))
