"""The cases of connections, of HTTP/2 and of time."""

from __future__ import annotations

from collections.abc import Mapping

from .cases import Case, error

__all__ = ["CASES"]

_CONN: Mapping[str, Case] = {
    "bad_chunk_size": error(),
    "bad_status_line": error(stream=False),
    "bytes_after_end": Case(plan="ask ask", right="answer answer", connections=2, stream=False),
    "close_after_request": Case(plan="ask ask", right="answer answer", stream=False),
    "close_on_accept": Case(stream=False, times=1),
    "connection_close": Case(plan="ask ask", right="answer answer", connections=2, stream=False),
    "early_response": error(plan="large", status=413, stream=False, times=9),
    "endless_headers": error(stream=False),
    "informational_1xx": Case(),
    # Two calls share a connection; the third comes after the time that the server named.
    "keep_alive_header": Case(
        parameters={"timeout": 2},
        plan="ask ask pause ask",
        right="answer answer answer",
        connections=2,
        stream=False,
    ),
    "large_error_body": Case(parameters={"kib": 16}, times=2, connections=1, attempts=3),
    "length_and_chunks": Case(right="answer|error"),
    "never_answers": error(timeout=0.6, stream=False),
    "no_close_notify": error(parameters={"events": 4}, tls=True),
    "reset_on_accept": Case(stream=False, times=1),
    "silent_accept": Case(right="answer|error", timeout=1.2, stream=False, times=1),
    "slow_accept": Case(parameters={"seconds": 4.0}, tls=True, timeout=1.2, stream=False, times=1),
    "stale_keepalive": Case(plan="ask ask", right="answer answer", stream=False),
}

_H2: Mapping[str, Case] = {
    "empty_data_frames": Case(),
    "goaway": Case(times=1, timeout=1.5, retries=0, attempts=2),
    "goaway_graceful": Case(
        plan="ask ask", right="answer answer", times=1, retries=0, connections=2
    ),
    "goaway_then_close": Case(times=1, timeout=1.5, retries=0, attempts=2),
    "low_max_streams": Case(
        itl=0.5, plan="leave together", right="left answer", timeout=1.5, patience=8.0
    ),
    "refused_stream": Case(times=1, retries=0, attempts=2),
    # After some of the text: before any a client may send again unseen.
    "rst_stream": Case(
        parameters={"after": 4}, plan="ask ask", right="error answer", times=1, connections=1
    ),
    "shrunk_window": Case(
        plan="ask large", right="answer answer|error", times=1, timeout=1.5, retries=0
    ),
    "starved_window": Case(
        plan="ask large ask", right="answer error answer", times=1, timeout=1.5, retries=0
    ),
    "window_filling_body": Case(
        parameters={"mib": 4.0},
        plan="hold ask",
        right="answer",
        times=1,
        timeout=1.5,
        retries=0,
        patience=5.0,
    ),
}

_TIME: Mapping[str, Case] = {
    "abandonable_stream": Case(plan="leave", right="left"),
    "pings_only": error(parameters={"interval": 0.2}, timeout=1.2, patience=4.0),
    "silence_before_first_event": Case(parameters={"seconds": 1.0}),
    "slow_events": Case(parameters={"seconds": 0.2}, timeout=1.2),
    "slow_headers": error(parameters={"seconds": 0.4}, timeout=1.2, total=1.1, stream=False),
    "stall_after": error(parameters={"events": 4}, timeout=1.2, patience=8.0),
    "trickle": error(
        parameters={"bytes_per_second": 100, "at_once": 20},
        timeout=1.2,
        total=1.0,
        patience=4.0,
    ),
}

CASES: Mapping[str, Case] = {**_CONN, **_H2, **_TIME}
