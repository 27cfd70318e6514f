"""Clients whose connections only look wasted, or whose loop stands still, are left alone."""

from __future__ import annotations

import asyncio

import pytest

import server_reference
from server_reference.scripted.entries import ConnectionEntry
from server_reference.scripted.evidence import Evidence
from server_reference.scripted.ops import Body, Head
from server_reference.scripted.verdict import judge
from tests.server_reference.scripted.raw_client import RawClient, chat
from tests.server_reference.scripted.watched import Played

HANGING = [Head(200, (("content-type", "text/event-stream"),)), Body(b"data: {}\n\n")]


def opened_at(*moments):
    """Each for a request of its own that took a millisecond; all stay open."""
    played = Played()
    for number, _ in enumerate(moments, 1):
        played.exchange(b"%d" % number, connection=number)
    entries = played.watch.journal.entries()
    for entry, moment in zip(entries, moments, strict=True):
        entry.asked_real, entry.ended_real = moment, moment + 0.001
    connections = [
        ConnectionEntry(n, 0.0, moment, False, "http/1.1", client=(None, ""), num_requests=1)
        for n, moment in enumerate(moments, 1)
    ]
    return judge(Evidence(entries, connections)).names


@pytest.mark.parametrize(
    ("moments", "rules"),
    [
        pytest.param([0.0, 0.01, 0.03, 0.06, 0.1, 0.15], [], id="a-burst-of-threads"),
        pytest.param([0.0, 0.5, 1.0, 1.5], ["connections_leaked"], id="one-after-another"),
    ],
)
def test_connections_that_stay_open(moments, rules):
    assert opened_at(*moments) == rules


async def leave(server, closes):
    """Read a little, leave the call, and have it judged at once, the loop standing still."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body = chat(stream=True)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n"
    with server.call() as call:
        writer.write(head.encode() + body)  # not before: it would be no request of this call
        await reader.readuntil(b"data: {}")
        call.outcome(abandoned=True)
        if closes:
            writer.transport.abort()
    try:
        return server.verdict().names, (await asyncio.to_thread(server.verdict)).names
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("closes", "rules"), [(True, []), (False, ["no_reset_on_abandon"])], ids=["closes", "forgets"]
)
def test_a_client_whose_loop_waits_for_the_verdict_cannot_close_meanwhile(closes, rules):
    with server_reference.scripted(HANGING) as server:
        assert asyncio.run(leave(server, closes)) == ([], rules)


def test_who_asserts_within_a_loop_is_told_so():
    async def check(server):
        server.assert_no_leaks()

    with server_reference.scripted(HANGING) as server, RawClient(server) as client:
        client.send(chat(stream=True))
        client.read(until=b"data")
        with pytest.raises(AssertionError, match=r"use await asyncio\.to_thread"):
            asyncio.run(check(server))
