"""The verdict over HTTP/2, on clients that people use."""

from __future__ import annotations

import httpx2
import pytest

import server_reference
from server_reference.scripted import ErrorAnswer
from tests.end_to_end.raw_http2 import RawHttp2
from tests.server_reference.scripted.raw_client import CHAT, chat
from tests.server_reference.scripted.test_verdict import HANGING, STREAM

pytestmark = pytest.mark.sdk


def client_of(server):
    return httpx2.Client(http1=False, http2=True, base_url=server.base_url)


def abandon(server, client):
    with server.call() as call:
        with client.stream("POST", CHAT, content=STREAM) as reply:
            next(part for part in reply.iter_text() if "Hel" in part)
        call.outcome(abandoned=True)


def test_a_stream_that_is_left_without_a_reset_is_found():
    """httpcore#943: the client's count says free, the server's says busy."""
    with server_reference.scripted(HANGING) as server, client_of(server) as client:
        abandon(server, client)

        assert server.verdict().names == ["no_reset_on_abandon"]
        assert server.counters().resets_seen == 0


def test_a_stream_that_is_left_with_a_reset_is_innocent():
    with server_reference.scripted(HANGING) as server, RawHttp2(server) as client:
        with server.call() as call:
            client.ask(1, CHAT, body=STREAM)
            client.until("DATA")
            client.reset(1)
            call.outcome(abandoned=True)

        assert server.verdict().findings == ()
        assert server.counters().resets_seen == 1


def test_one_connection_for_all_calls_is_innocent():
    with server_reference.scripted("Hello") as server, client_of(server) as client:
        for text in ("a", "b", "c"):
            with server.call() as call:
                reply = client.post(CHAT, content=chat(text))
                call.text = reply.json()["choices"][0]["message"]["content"]
            assert "[DONE]" in client.post(CHAT, content=STREAM).text

        server.assert_reused()
        server.assert_no_leaks()
        assert server.verdict().findings == ()
        assert {entry.protocol for entry in server.journal.entries()} == {"h2"}


def test_what_is_sent_again_is_judged_on_streams_too():
    with server_reference.scripted(ErrorAnswer(401)) as server, client_of(server) as client:
        client.post(CHAT, content=chat())
        client.post(CHAT, content=chat())

        assert server.verdict().names == ["retried_for_nothing"]
