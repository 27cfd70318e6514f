"""Every failure of an exchange, worded once: what happened, where, after how long, what to do."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from .._call import Deadline, Origin
from .._errors import ExchangeError, ExchangeKind, Sent

if TYPE_CHECKING:
    from .proxy import Proxy

__all__ = [
    "BadReplyError",
    "bare",
    "broken",
    "client_closed",
    "closed_by_us",
    "late",
    "other_family",
    "other_protocol",
    "pool_timeout",
    "read_timeout",
    "reason_of",
    "stage_of",
    "unopened",
    "unopened_in_time",
    "unread",
    "unresolved",
    "unsent",
    "write_timeout",
]


E = TypeVar("E", bound=BaseException)


class BadReplyError(Exception):
    """What came is no reply, or not all of one; raised by the parser, which knows no origin."""

    def __init__(self, kind: ExchangeKind, message: str) -> None:
        self.kind: ExchangeKind = kind
        super().__init__(message)


def bare(error: E) -> E:
    """`error` to be kept by a connection or a reply, without the frames that it went through.

    They hold who keeps it, and the call with its body: a cycle, which only the collector ends.
    """
    behind: BaseException | None = error
    while behind is not None:
        behind.__traceback__ = None
        behind = behind.__cause__ or behind.__context__
    return error


def client_closed() -> RuntimeError:
    return RuntimeError("this client is closed; make a new one, or close it later")


def reason_of(error: Exception) -> str:
    """Why it failed, in the words of whoever knows."""
    if isinstance(error, OSError):
        if hasattr(error, "library"):  # of TLS, whose numbers are not the system's
            return getattr(error, "reason", None) or error.strerror or type(error).__name__
        # The system's own words: asyncio puts other ones, with addresses, into `strerror`.
        if error.errno is not None and not isinstance(error, socket.gaierror):
            return os.strerror(error.errno)
        return error.strerror or type(error).__name__
    return type(error).__name__


def _peer(origin: Origin, via: Proxy | None) -> str:
    """Who is spoken to: the origin, or the proxy on the way to it."""
    return str(origin) if via is None else f"the proxy {via}, on the way to {origin}"


def unresolved(
    origin: Origin, error: OSError | UnicodeError, via: Proxy | None = None
) -> ExchangeError:
    where = "base_url" if via is None else "proxy="
    return ExchangeError(
        f"the host name of {_peer(origin, via)} has no address ({reason_of(error)}); "
        f"check {where} and the network",
        kind="resolve",
        origin=str(origin),
    )


def unopened(
    origin: Origin, error: OSError, *, at: str = "its address", via: Proxy | None = None
) -> ExchangeError:
    who = "server" if via is None else "proxy"
    return ExchangeError(
        f"no connection to {_peer(origin, via)}: {reason_of(error)} at {at}; "
        f"check that the {who} runs and that the network lets this through",
        kind="connect",
        origin=str(origin),
    )


def other_family(origin: Origin, local_address: str, via: Proxy | None) -> ExchangeError:
    kind = "IPv6" if ":" in local_address else "IPv4"
    return ExchangeError(
        f"no connection to {_peer(origin, via)}: it has no {kind} address, and local_address= "
        f"is {local_address}; leave it out, or give an address of the other kind",
        kind="resolve",
        origin=str(origin),
    )


def unopened_in_time(
    origin: Origin, *, stage: str, timeout: float, waited: float, via: Proxy | None = None
) -> ExchangeError:
    peer, steps = str(origin), "look-up, TCP and TLS"
    if via is not None:
        peer, steps = f"{origin} through the proxy {via}", "look-up, TCP, the proxy and TLS"
    return ExchangeError(
        f"no connection to {peer} after {waited:.1f} s, in stage {stage} "
        f"(timeout.connect is {timeout:g} s for {steps} together); raise it, "
        "or check the network",
        kind="connect_timeout",
        origin=str(origin),
    )


def other_protocol(origin: Origin, spoken: str | None, *, wanted: str) -> ExchangeError:
    """TLS chose a protocol that `http_version` excludes, or none."""
    what, offered = (spoken or "no protocol"), ("h2" if wanted == "2" else "http/1.1")
    return ExchangeError(
        f'{origin} chose {what} by ALPN, and http_version="{wanted}" wants {offered}; '
        'set http_version="auto", or offer that protocol in your own ssl_context '
        f"(set_alpn_protocols)",
        kind="unsupported",
        origin=str(origin),
    )


def pool_timeout(
    origin: Origin,
    *,
    timeout: float,
    waited: float,
    limit: int,
    active: int,
    queued: int,
    held: Sequence[str] = (),
    is_own: bool = False,
) -> ExchangeError:
    """No connection became free.

    Args:
        held: What has held them for longest.
        is_own: Whether the limit is the client's own, not that of all who share them.
    """
    longest = f", longest {', '.join(held)}" if held else ""
    most, others = f"at most {limit} that all clients share", "other calls"
    if is_own:
        most, others = f"this client's own at most {limit}", "other calls of it"
    return ExchangeError(
        f"no connection to {origin} became free in {waited:.1f} s (timeout.pool is {timeout:g} s): "
        f"{active} of {most} are active{longest}; {queued} {others} are queued; "
        "raise max_connections, or close replies that nobody reads",
        kind="pool_timeout",
        origin=str(origin),
    )


_LATE: dict[str, ExchangeKind] = {
    "first_event": "first_event_timeout",
    "idle": "idle_timeout",
    "total": "total_timeout",
}


def stage_of(begun: bool) -> str:
    """Where a reply stands that is awaited, or that is being read (`begun`)."""
    return "decode" if begun else "ttft"


def late(error: ExchangeError, deadline: Deadline | None, *, stage: str) -> ExchangeError:
    """The error for `deadline`, where that is what ended a wait; else `error`."""
    if deadline is None:
        return error
    waited = f"{deadline.seconds:g} s"
    match deadline.limit:
        case "first_event":
            message = (
                f"{error.origin} sent nothing with content within {waited} of the request, "
                f"in stage {stage} (timeout.first_event is {waited}, and pings do not count); "
                "raise it if the model thinks for longer"
            )
        case "idle":
            message = (
                f"{error.origin} sent nothing with content for {waited} in the middle of a "
                f"stream, in stage {stage} (timeout.idle is {waited}, and pings do not count); "
                "raise it if the model pauses for longer"
            )
        case "total":
            message = (
                f"the call to {error.origin} was not done after {waited}, in stage {stage} "
                f"(timeout.total is {waited}, or that was left of its scope, with all attempts "
                "and waits); raise it, or ask for less"
            )
    return ExchangeError(
        message,
        kind=_LATE[deadline.limit],
        sent=error.sent,
        origin=error.origin,
        reused=error.reused,
    )


def write_timeout(origin: Origin, *, timeout: float, sent: Sent, reused: bool) -> ExchangeError:
    return ExchangeError(
        f"{origin} took nothing of the request for {timeout:.1f} s, in stage send "
        f"(timeout.write is {timeout:g} s); raise it, or send less",
        kind="write_timeout",
        sent=sent,
        origin=str(origin),
        reused=reused,
    )


def unsent(origin: Origin, error: OSError | None, *, sent: Sent, reused: bool) -> ExchangeError:
    why = "the connection was closed" if error is None else reason_of(error)
    return ExchangeError(
        f"the request to {origin} could not be written: {why} with {sent} of it sent; "
        "the server may refuse bodies of this size",
        kind="write",
        sent=sent,
        origin=str(origin),
        reused=reused,
    )


def read_timeout(origin: Origin, *, timeout: float, awaited: str, reused: bool) -> ExchangeError:
    return ExchangeError(
        f"{origin} was silent for {timeout:.1f} s while {awaited} was awaited "
        f"(timeout.read is {timeout:g} s); raise it if the model needs longer",
        kind="read_timeout",
        sent="all",
        origin=str(origin),
        reused=reused,
    )


def unread(origin: Origin, error: OSError, *, begun: bool, reused: bool) -> ExchangeError:
    """The connection broke: before the first byte of the reply, or after (`begun`)."""
    when = "in the middle of its reply" if begun else "after the request, before any reply"
    return ExchangeError(
        f"the connection to {origin} broke {when} ({reason_of(error)}); "
        "the server may have processed the request",
        kind="read" if begun else "closed",
        sent="all",
        origin=str(origin),
        reused=reused,
    )


def broken(origin: Origin, error: BadReplyError, *, reused: bool) -> ExchangeError:
    return ExchangeError(
        f"{origin} {error}",
        kind=error.kind,
        sent="nothing" if error.kind == "refused" else "all",
        origin=str(origin),
        reused=reused,
    )


def closed_by_us(origin: Origin, *, sent: Sent, reused: bool) -> ExchangeError:
    return ExchangeError(
        f"the connection to {origin} was cut on this side while it was in use; "
        "keep the client open until its replies are read",
        kind="closed",
        sent=sent,
        origin=str(origin),
        reused=reused,
    )
