from __future__ import annotations

import socket
import ssl

import pytest

from smartclient._call import Origin
from smartclient.net import failures

ORIGIN = Origin("https", "a.example", 443)


def refused_by_tls() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert")
    error.library, error.reason = "SSL", "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(
            ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 443)"),
            "Connection refused at its address",
            id="system-error-in-the-system's-words",
        ),
        pytest.param(refused_by_tls(), "TLSV13_ALERT_CERTIFICATE_REQUIRED at", id="of-tls"),
        pytest.param(OSError("no route"), "OSError at its address", id="without-number"),
    ],
)
def test_reason_is_said(error, words):
    assert words in str(failures.unopened(ORIGIN, error))


def test_look_up_failure_keeps_the_resolvers_words():
    error = failures.unresolved(ORIGIN, socket.gaierror(-2, "Name or service not known"))

    assert (error.kind, error.sent, error.origin) == ("resolve", "nothing", "https://a.example:443")
    assert "Name or service not known" in str(error)


@pytest.mark.parametrize(("begun", "kind"), [(False, "closed"), (True, "read")])
def test_break_is_told_apart_by_whether_the_reply_had_begun(begun, kind):
    error = failures.unread(ORIGIN, ConnectionResetError(104, "x"), begun=begun, reused=True)

    assert (error.kind, error.sent, error.reused, error.maybe_processed) == (
        kind,
        "all",
        True,
        True,
    )


def test_pool_timeout_tells_who_holds_the_connections():
    error = failures.pool_timeout(ORIGIN, timeout=2, waited=2.04, limit=9, active=9, queued=4)

    assert "in 2.0 s (timeout.pool is 2 s): 9 of at most 9 that all clients share" in str(error)
    assert "are active; 4 other calls are queued" in str(error)


def test_pool_timeout_tells_that_the_limit_is_the_clients_own():
    error = failures.pool_timeout(
        ORIGIN, timeout=2, waited=2.04, limit=9, active=9, queued=4, is_own=True
    )

    assert "9 of this client's own at most 9 are active; 4 other calls of it are" in str(error)
