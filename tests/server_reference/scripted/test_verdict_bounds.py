"""Where the rules about connections draw their lines; each one's guilty and innocent client is
in `test_verdict.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from server_reference.scripted.entries import ConnectionEntry
from server_reference.scripted.evidence import Evidence
from server_reference.scripted.verdict_connections import (
    connection_per_call,
    connections_leaked,
    stream_not_drained,
)
from tests.server_reference.scripted.watched import Played


def a_connection(number, opened, closed=None, **changes):
    """One that carried a request in the first second, and that its client closed."""
    entry = ConnectionEntry(
        number,
        opened_at=opened,
        opened_real=opened,
        is_tls=False,
        protocol="http/1.1",
        client=("agent", ""),
        num_requests=1,
        closed_at=closed,
        closed_real=closed,
        reason=None if closed is None else "client",
    )
    return replace(entry, **changes)


def findings(rule, connections, **changes):
    played = Played()
    played.exchange()
    entry = played.watch.journal.entries()[0]
    entries = [
        replace(
            entry,
            number=number,
            connection=one.number,
            asked_real=one.opened_real + 0.1,
            ended_real=one.opened_real + 0.9,
            **changes,
        )
        for number, one in enumerate(connections, 1)
    ]
    return [finding.message for finding in rule.check(Evidence(entries, connections))]


def test_a_connection_for_each_call_is_counted():
    connections = [a_connection(1, 0, 1), a_connection(2, 2, 3), a_connection(3, 4, 5)]

    (message,) = findings(connection_per_call, connections)

    assert message.startswith("3 requests came over 3 connections: 2 healthy ones were closed by")


@pytest.mark.parametrize(
    "connections",
    [
        pytest.param([a_connection(1, 0, 1), a_connection(2, 2, 3)], id="once-is-no-habit"),
        pytest.param(
            [a_connection(n, 2 * n, 2 * n + 1, num_requests=4) for n in (1, 2, 3)], id="well-used"
        ),
        pytest.param([a_connection(n, 40 * n, 40 * n + 1) for n in (1, 2, 3)], id="idle-for-long"),
        pytest.param(
            [a_connection(n, 2 * n, 2 * n + 1, reason="server") for n in (1, 2, 3)],
            id="closed-by-the-server",
        ),
        pytest.param(
            [a_connection(n, 2 * n, 2 * n + 1, client=("agent", str(n))) for n in (1, 2, 3)],
            id="clients-of-their-own",
        ),
    ],
)
def test_connections_may_be_closed(connections):
    assert findings(connection_per_call, connections) == []


def test_connections_that_stay_open_unused_are_counted():
    (message,) = findings(connections_leaked, [a_connection(n, 2 * n) for n in (1, 2, 3)])

    assert message.startswith("3 requests came over 3 connections: 2 healthy ones stay open")


@pytest.mark.parametrize(
    "connections",
    [
        pytest.param([a_connection(1, 0), a_connection(2, 2)], id="one-is-left"),
        pytest.param([a_connection(n, 2 * n, num_requests=4) for n in (1, 2, 3)], id="well-used"),
        pytest.param([a_connection(n, 0) for n in (1, 2, 3)], id="at-the-same-time"),
        pytest.param(
            [*(a_connection(n, 0) for n in (1, 2)), *(a_connection(n, 2) for n in (3, 4))],
            id="fewer-than-twice-what-was-needed-at-once",
        ),
    ],
)
def test_connections_may_stay_open(connections):
    assert findings(connections_leaked, connections) == []


@pytest.mark.parametrize(
    ("reason", "how", "protocol", "is_found"),
    [
        pytest.param("client", "complete", "http/1.1", True, id="closed-and-opened-again"),
        pytest.param("client", "abandoned", "http/1.1", True, id="closed-before-the-end"),
        pytest.param("client reset", "complete", "http/1.1", True, id="reset"),
        pytest.param("server", "complete", "http/1.1", False, id="closed-by-the-server"),
        pytest.param("client", "cut", "http/1.1", False, id="cut-by-the-server"),
        pytest.param("client", "complete", "h2", False, id="http2-needs-no-draining"),
    ],
)
def test_a_stream_is_read_to_its_end(reason, how, protocol, is_found):
    first = a_connection(1, 0, 1, reason=reason, protocol=protocol)
    connections = [first, a_connection(2, 2, protocol=protocol)]

    found = findings(stream_not_drained, connections, has_terminal=True, how=how)

    assert bool(found) == is_found
    assert all("keep one client" in message for message in found)
