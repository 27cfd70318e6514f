"""What plugs into the scripted server: observers, providers, faults, and fronts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from .answers import Answer, ErrorAnswer, Usage
from .clock import Clock
from .ops import Op, Script
from .playing import Playable
from .request import Received

__all__ = [
    "Connection",
    "Fault",
    "Front",
    "How",
    "Observer",
    "Provider",
    "Service",
]

How = Literal["complete", "cut", "abandoned", "stopped"]
"""How a reply ended: whole; broken off by its script, by the client, by the server's stop."""


@dataclass(slots=True, eq=False)
class Connection:
    """One accepted connection.

    Attributes:
        number: From 1.
        opened_at: Unix seconds on the server's clock.
        protocol: `http/1.1` or `h2`, known with the first bytes.
        num_requests: Requests that came over it so far.
        num_resets: HTTP/2 streams on it that the client reset.
    """

    number: int
    opened_at: float
    is_tls: bool = False
    protocol: str = "http/1.1"
    num_requests: int = 0
    num_resets: int = 0


class Observer:
    """Told what happens, on the server's thread; override what you need. Must not block."""

    def connection_opened(self, connection: Connection) -> None:
        """A connection was accepted."""

    def connection_closed(self, connection: Connection, reason: str) -> None:
        """It is gone: `client`, `client reset`, `server`, `server reset`, `bad request`, …"""

    def request(self, received: Received) -> None:
        """A whole request has come."""

    def wrote(self, received: Received, op: Op, num_bytes: int) -> None:
        """`op` of the reply was performed, and put `num_bytes` on the wire."""

    def ended(self, received: Received, how: How) -> None:
        """The reply is over."""

    def broke(self, received: Received, error: BaseException) -> None:
        """A rule's function, a provider or a fault raised; the client was sent a 500."""


class Provider:
    """Behaviour that a provider has whatever the rules say; override what you need."""

    def answer(self, received: Received) -> Answer | ErrorAnswer | None:
        """Refuse, or answer, before the rules are asked; `None` leaves it to them."""
        return None

    def usage(self, received: Received, answer: Answer) -> Usage | None:
        """What the call uses; `None` leaves it to the answer, or to an estimate.

        Of several providers the last one's counts.
        """
        return None

    def headers(self, received: Received) -> Sequence[tuple[str, str]]:
        """Further headers of every reply, such as the state of the limits."""
        return ()

    def reset(self) -> None:
        """Forget what came before."""


@runtime_checkable
class Fault(Protocol):
    """Breaks a script; `Answer(...) | fault` and a rule's `then` take it."""

    def apply(self, script: Script, received: Received) -> Script:
        """The script that is played in place of `script`."""
        ...


class Service(Protocol):
    """What a front needs of the server. Everything is called on the loop's thread."""

    @property
    def clock(self) -> Clock: ...

    @property
    def is_stopping(self) -> bool:
        """Whether the server stops, and has aborted the connections itself."""
        ...

    def receive(
        self,
        connection: Connection,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        stream_id: int | None = None,
    ) -> Received:
        """Note a whole request. Header names in small letters; pseudo-headers left out."""
        ...

    def script(self, received: Received) -> Playable:
        """What to play: at once, awaited when a rule's function is asynchronous, or as it comes.

        Never raises; a failure becomes a reply.
        """
        ...

    def wrote(self, received: Received, op: Op, num_bytes: int) -> None: ...

    def ended(self, received: Received, how: How) -> None: ...

    def broke(self, received: Received, error: BaseException) -> None:
        """A script could not be played, and the connection is aborted."""
        ...

    def closed(self, connection: Connection, reason: str) -> None:
        """The connection is gone; call once, from `connection_lost`."""
        ...


Front: TypeAlias = Callable[[Connection, Service], asyncio.Protocol]
"""Makes the protocol for one connection. The server calls its `connection_made`, then its
`data_received` with what has come. When the server stops it aborts the transport."""
