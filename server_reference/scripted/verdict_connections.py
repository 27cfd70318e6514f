"""Verdicts on connections: reuse, leaks, streams left undrained, and keys in wrong places.

Source: openai-python#3440 (closed at the end marker), mistralai/client-python#532 (leaked by
errors), httpcore#943 (cancelled without a reset), openai-python#1181 (a client per call).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from .entries import ConnectionEntry, Entry
from .evidence import Evidence, VerdictRule, verdict_rule

__all__ = [
    "CONNECTION_RULES",
    "connection_per_call",
    "connections_leaked",
    "misplaced_key",
    "no_reset_on_abandon",
    "stream_not_drained",
]

_Seen = Iterator[tuple[str, Sequence[Entry]]]

_SOON = 0.25
_EXPIRY = 30.0
_FEW = 2


@verdict_rule
def stream_not_drained(evidence: Evidence) -> _Seen:
    """A connection was closed by the client at the end of a stream, in place of being reused.

    After the event that ends a stream the last bytes of the body still follow; who closes
    without reading them pays for a new connection at each call.
    """
    # Who leaves, or refuses what came, may close.
    abandoned = {
        entry.number
        for scope, entries in evidence.reported
        if scope.is_abandoned or scope.error is not None
        for entry in entries
    }
    for connection in evidence.connections:
        carried = evidence.on_connection.get(connection.number)
        if not carried or connection.protocol != "http/1.1" or carried[-1].number in abandoned:
            continue
        last = carried[-1]
        if not last.has_terminal or not connection.was_closed_by_client:
            continue
        if last.how == "abandoned":
            yield _undrained(last, "closed between the stream's last event and its end")
        elif last.how == "complete" and _closed_after(last, connection) < _SOON:
            if connection.reason == "client reset":
                yield _undrained(last, "closed with bytes of the stream unread")
            elif _keeps_alive(last) and _opened_next(connection, evidence):
                yield _undrained(last, "closed right after a stream, and another one opened")


@verdict_rule
def no_reset_on_abandon(evidence: Evidence) -> _Seen:
    """The caller was done with a call, and the server went on with it: nothing told it to stop."""
    for scope, entries in evidence.reported:
        for entry in entries:
            if scope.ended_at is None or evidence.sees_no_end(scope.ended_at + _SOON):
                continue
            if entry.how is None:
                yield (
                    f"request {entry.number} was still being answered after its caller had left; "
                    "close the connection, or reset the stream",
                    (entry,),
                )
            elif entry.how != "abandoned" and (entry.ended_real or 0) > scope.ended_at + _SOON:
                late = (entry.ended_real or 0) - scope.ended_at
                yield (
                    f"request {entry.number} was answered for {late:.3g} s more after its caller "
                    "had left; close the connection, or reset the stream",
                    (entry,),
                )


@verdict_rule
def connection_per_call(evidence: Evidence) -> _Seen:
    """Healthy connections are closed, and new ones opened for the next calls."""
    for connections in _by_client(evidence):
        again = [
            connection
            for connection in connections
            if _was_healthy(connection, evidence)
            and connection.was_closed_by_client
            and _opened_next(connection, evidence)
        ]
        reuses = sum(connection.num_requests - 1 for connection in connections)
        if len(again) >= _FEW and len(again) > reuses:
            yield _waste(connections, again, "were closed by the client and followed by new ones")


@verdict_rule
def connections_leaked(evidence: Evidence) -> _Seen:
    """New connections are opened while idle ones stay open and are never used again."""
    for connections in _by_client(evidence):
        idle = [
            connection
            for connection in connections
            if connection.closed_at is None
            and _was_healthy(connection, evidence)
            # Threads at the same time open theirs before they know that one is free.
            and _opened_next(connection, evidence, after=_SOON)
        ]
        reuses = sum(connection.num_requests - 1 for connection in connections)
        most = _most_at_once([e for c in connections for e in evidence.on_connection[c.number]])
        if len(idle) >= max(_FEW, 2 * most) and len(idle) > reuses:
            yield _waste(connections, idle, "stay open, idle, and were not used again")


@verdict_rule
def misplaced_key(evidence: Evidence) -> _Seen:
    """A key travels where it is logged or belongs to somebody else."""
    told: dict[str, list[Entry]] = {}
    for entry in evidence.entries:
        for where in entry.misplaced:
            told.setdefault(where, []).append(entry)
    for where, entries in told.items():
        yield f"a key came {where} ({len(entries)} requests)", entries


def _undrained(entry: Entry, what: str) -> tuple[str, Sequence[Entry]]:
    return (
        f"connection {entry.connection} was {what} (request {entry.number}); read to the end of "
        "the body and keep one client for all calls, or report the call as abandoned in "
        '"with server.call()"',
        (entry,),
    )


def _waste(
    connections: Sequence[ConnectionEntry], wasted: Sequence[ConnectionEntry], what: str
) -> tuple[str, Sequence[Entry]]:
    requests = sum(connection.num_requests for connection in connections)
    return (
        f"{requests} requests came over {len(connections)} connections: {len(wasted)} healthy "
        f"ones {what}; keep one client, and read each reply to its end",
        (),
    )


def _by_client(evidence: Evidence) -> list[list[ConnectionEntry]]:
    """Connections by whose pool they are from: agent and keys."""
    found: dict[tuple[str | None, str], list[ConnectionEntry]] = {}
    for connection in evidence.connections:
        if connection.client is not None and connection.number in evidence.on_connection:
            found.setdefault(connection.client, []).append(connection)
    return list(found.values())


def _was_healthy(connection: ConnectionEntry, evidence: Evidence) -> bool:
    """Whether it could have carried another request, as far as the server was concerned."""
    carried = evidence.on_connection.get(connection.number, [])
    return bool(carried) and carried[-1].how == "complete" and _keeps_alive(carried[-1])


def _keeps_alive(entry: Entry) -> bool:
    return (entry.reply_header("connection") or "").lower() != "close"


def _closed_after(entry: Entry, connection: ConnectionEntry) -> float:
    """Seconds between a reply's end and its connection's."""
    return (connection.closed_real or 0.0) - (entry.ended_real or 0.0)


def _opened_next(connection: ConnectionEntry, evidence: Evidence, *, after: float = 0.0) -> bool:
    """Whether the same client opened another one, and used it, once this one was free.

    Args:
        after: Seconds that it must have been free for.
    """
    carried = evidence.on_connection[connection.number]
    free = connection.closed_real or carried[-1].ended_real or 0.0
    opened = evidence.opened[connection.client]
    later = bisect_right(opened, free + after)
    return later < len(opened) and opened[later] < free + _EXPIRY


def _most_at_once(entries: Sequence[Entry]) -> int:
    """How many requests were under way together."""
    changes = [(entry.asked_real, 1) for entry in entries]
    changes += [(entry.ended_real, -1) for entry in entries if entry.ended_real is not None]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


CONNECTION_RULES: tuple[VerdictRule, ...] = (
    stream_not_drained,
    no_reset_on_abandon,
    connection_per_call,
    connections_leaked,
    misplaced_key,
)
