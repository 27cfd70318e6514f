"""Paths through `smartclient.net`, as far as they do no I/O."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.replies import openai_reply
from smartclient.net.http1 import ReplyParser
from smartclient.net.pool import Pool, Waiter

__all__ = ["http1_reply", "pool"]

_NUM_CONNECTIONS = 100


def http1_reply() -> Callable[[], object]:
    body = openai_reply()
    lines = [
        "HTTP/1.1 200 OK",
        "date: Sun, 29 Nov 2026 12:00:00 GMT",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: keep-alive",
        "x-request-id: req_5a1e0b7a8c4d4a4d9c2f",
        "openai-processing-ms: 412",
        "openai-version: 2020-10-01",
        "x-ratelimit-limit-requests: 10000",
        "x-ratelimit-remaining-requests: 9999",
        "x-ratelimit-reset-requests: 6ms",
        "server: cloudflare",
        'alt-svc: h3=":443"; ma=86400',
    ]
    data = "\r\n".join([*lines, "", ""]).encode() + body

    def step() -> None:
        parser = ReplyParser("POST")
        parser.feed(data)
        assert parser.is_complete
        assert len(parser.take()) == len(body)

    return step


def pool() -> Callable[[], object]:
    connections = [object() for _ in range(_NUM_CONNECTIONS)]
    pool: Pool[object] = Pool(_NUM_CONNECTIONS)
    for connection in connections:
        assert pool.reserve()
        pool.fill(connection)
    granted: list[int] = []

    def step() -> None:
        """One call releases while another waits; then the pool is left as it was."""
        waiter: Waiter[object] = Waiter(lambda: granted.append(1))
        assert pool.take(0.0) is None
        assert not pool.reserve()
        pool.wait(waiter)
        pool.release(connections[0], 60.0)
        assert waiter.connection is connections[0]
        pool.release(connections[0], 60.0)
        assert pool.take(0.0) is connections[0]
        granted.clear()

    return step
