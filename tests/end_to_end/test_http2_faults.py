"""What HTTP/2 servers do wrong, or do while a client hopes otherwise: every preset of it."""

from __future__ import annotations

import asyncio

import pytest

from server_reference.scripted import Answer, fault, rule
from server_reference.scripted.faults import PRESETS
from server_reference.scripted.ops import Body, End, Fin, GoAway, Head, Pause, ResetStream, Wait
from smartclient._call import Timeout
from smartclient._errors import ExchangeError
from tests.end_to_end.http2_sides import CHAT
from tests.end_to_end.net_sides import read_all

TESTED = {
    "empty_data_frames",
    "goaway",
    "goaway_graceful",
    "goaway_then_close",
    "low_max_streams",
    "refused_stream",
    "rst_stream",
    "shrunk_window",
    "starved_window",
    "window_filling_body",  # in test_connections_http2.py
}
LIMITS = {"connect": 5.0, "pool": 5.0, "read": 5.0}


def broken(name, **parameters):
    """The fault once, then whole answers."""
    once = rule(Answer("Hello") | fault(name, **parameters), times=1)
    return [once, rule("Hello there")]


def warm(rules):
    """A whole answer before `rules`.

    A server that closes before it has read our first frames would reset the connection, and
    what it had sent could be lost on the way.
    """
    return [rule("Hello", times=1), *rules]


def test_every_preset_of_http2_is_tested():
    assert {name for name, preset in PRESETS.items() if "h2" in preset.needs} == TESTED


@pytest.mark.parametrize(
    ("name", "parameters", "num_connections"),
    [
        pytest.param("refused_stream", {}, 1, id="refused"),
        pytest.param("goaway", {}, 2, id="goaway"),
        pytest.param("goaway", {"code": 11}, 2, id="goaway-calm"),
        pytest.param("goaway_then_close", {}, 2, id="goaway-and-close"),
    ],
)
def test_what_was_not_processed_is_sent_again_for_free(h2, name, parameters, num_connections):
    server = h2.serving(warm(broken(name, **parameters)))

    async def scenario():
        client = h2.client(server)
        await h2.text(client, server)
        assert b"[DONE]" in await h2.text(client, server)

    h2.run(scenario)

    counted = server.counters()
    assert (counted.requests, counted.connections_opened) == (3, num_connections)


def test_server_that_refuses_for_ever_is_believed_in_the_end(h2):
    server = h2.serving(Answer("Hello") | fault("refused_stream"))

    async def scenario():
        with pytest.raises(ExchangeError, match=r"REFUSED_STREAM.*has not processed") as error:
            await h2.text(h2.client(server), server)
        assert (error.value.kind, error.value.maybe_processed) == ("refused", False)
        assert h2.counts().active == 0

    h2.run(scenario)

    assert server.counters().requests == 4


def test_refused_body_that_can_be_read_once_is_not_sent_again(h2):
    server = h2.serving(broken("refused_stream"))

    async def scenario():
        with pytest.raises(ExchangeError) as error:
            await h2.client(server).fetch(f"{server.base_url}/v1/chat/completions", body=[CHAT])
        assert (error.value.kind, error.value.sent) == ("refused", "nothing")

    h2.run(scenario)


@pytest.mark.parametrize(
    ("after", "kind"), [pytest.param(0, "closed", id="head"), pytest.param(1, "read", id="body")]
)
def test_reset_is_a_typed_error_and_the_connection_goes_on(h2, after, kind):
    script = [[], [Head(200), Body(b"begun")]][after]
    server = h2.serving([rule([*script, ResetStream(2)], times=1), rule("Hello")])

    async def scenario():
        client = h2.client(server)
        with pytest.raises(ExchangeError, match="INTERNAL_ERROR") as error:
            await h2.text(client, server)
        assert (error.value.kind, error.value.maybe_processed) == (kind, True)
        assert b"[DONE]" in await h2.text(client, server)

    h2.run(scenario)

    assert server.counters().connections_opened == 1


def test_part_that_came_before_a_reset_is_kept(h2):
    server = h2.serving(broken("rst_stream", after=2))

    async def scenario():
        reply, _ = await h2.chat(h2.client(server), server)
        body = b""
        with pytest.raises(ExchangeError, match="CANCEL"):
            while True:
                body += await reply.read()
        assert body.startswith(b"data: ")

    h2.run(scenario)


def test_goaway_lets_what_has_begun_end_in_peace(h2):
    server = h2.serving(broken("goaway_graceful"))

    async def scenario():
        client = h2.client(server)
        assert b"[DONE]" in await h2.text(client, server)
        assert b"[DONE]" in await h2.text(client, server)
        assert h2.counts() == (1, 0, 0)

    h2.run(scenario)

    assert server.counters().connections_opened == 2


def test_streams_below_the_last_one_go_on_while_those_above_are_sent_again(h2):
    slow = [Head(200), Wait(0.05), Body(b"slow"), End()]
    server = h2.serving(
        [
            rule(slow, path="/slow"),
            rule([GoAway(1, 0), Pause()], path="/away", times=1),
            rule([Head(200), Body(b"again"), End()], path="/away"),
        ]
    )

    async def scenario():
        client = h2.client(server)
        first, _ = await client.send(f"{server.base_url}/slow")
        assert await client.fetch(f"{server.base_url}/away") == b"again"
        assert await read_all(first) == b"slow"

    h2.run(scenario)

    assert server.counters().connections_opened == 2


def link_of(reply):
    """The connection that carries a reply, of either side."""
    response = getattr(reply, "response", reply)
    return getattr(response, "_response", response)._connection.link


def test_calls_go_on_over_another_connection_when_the_stream_numbers_are_used_up(h2):
    """A place used to be lost for each, or a `KeyError` hid why (httpcore2 PR#1012, httpx2#298)."""
    server = h2.serving("Hello there")

    async def scenario():
        client = h2.client(server, max_connections=6)
        reply, _ = await h2.chat(client, server)
        link_of(reply).state._h2.highest_outbound_stream_id = 2**31 - 5  # two are left
        others = await asyncio.gather(*(h2.text(client, server) for _ in range(5)))
        others += [await h2.text(client, server), await read_all(reply)]
        assert all(b"[DONE]" in text for text in others)
        assert (h2.counts().active, h2.counts().queued) == (0, 0)

    h2.run(scenario)

    counted = server.counters()
    assert (counted.requests, counted.connections_opened, counted.resets_seen) == (7, 2, 0)


def test_close_in_the_middle_is_an_error_that_may_have_been_processed(h2):
    closing = rule([Head(200), Body(b"begun"), Fin()], times=1)
    server = h2.serving(warm([closing, rule("Hello")]))

    async def scenario():
        client = h2.client(server)
        await h2.text(client, server)
        with pytest.raises(ExchangeError) as error:
            await h2.text(client, server)
        assert (error.value.kind, error.value.maybe_processed) == ("read", True)
        assert b"[DONE]" in await h2.text(client, server)
        assert h2.counts().active == 0

    h2.run(scenario)


def test_close_while_idle_is_never_seen_by_a_call(h2):
    server = h2.serving(
        [rule([Head(200), Body(b"ok"), End(), Wait(0), Fin()], times=1), rule("Hi")]
    )

    async def scenario():
        client = h2.client(server)
        assert await client.fetch(server.base_url) == b"ok"
        await asyncio.sleep(0.05)
        assert b"[DONE]" in await h2.text(client, server)

    h2.run(scenario)

    assert server.counters().connections_opened == 2


def test_lowered_limit_is_obeyed_and_others_get_a_connection(h2):
    lowered = Answer("Hello") | fault("low_max_streams", streams=1)
    server = h2.serving([rule(lowered, times=1), rule([Head(200), Body(b"x"), Pause()])])

    async def scenario():
        client = h2.client(server)
        await h2.text(client, server)
        replies = [await client.send(server.base_url) for _ in range(3)]
        for reply, _ in replies:
            await reply.close()

    h2.run(scenario)

    counted = server.counters()
    assert (counted.connections_opened, counted.requests) == (2, 4)  # none was refused


def test_empty_frames_are_no_end_and_no_event(h2):
    server = h2.serving(broken("empty_data_frames"))

    async def scenario():
        assert b"[DONE]" in await h2.text(h2.client(server), server)

    h2.run(scenario)


@pytest.mark.parametrize("name", ["starved_window", "shrunk_window"])
def test_upload_without_credit_waits_within_its_limit_and_others_go_on(h2, name):
    server = h2.serving(broken(name))

    async def scenario():
        client = h2.client(server)
        await h2.text(client, server)
        with pytest.raises(ExchangeError) as error:
            await client.fetch(
                f"{server.base_url}/upload",
                body=b"x" * 500_000,
                timeout=Timeout(write=0.05, **LIMITS),
            )
        assert error.value.kind == "write_timeout"
        assert await client.fetch(server.base_url, method="GET", body=b"")

    h2.run(scenario)

    # A connection without credit of its own would hold up every later upload.
    num_connections = 2 if name == "starved_window" else 1
    counted = server.counters()
    assert (counted.connections_opened, counted.resets_seen) == (num_connections, 1)


def test_reply_that_comes_before_the_upload_ends_is_read_and_the_rest_not_sent(h2):
    server = h2.serving("Hello", max_body_bytes=100_000)

    async def scenario():
        client = h2.client(server)
        reply, _ = await client.send(server.base_url, body=b"x" * 5_000_000)
        assert (reply.status, await read_all(reply)) == (413, b"")
        assert b"[DONE]" in await h2.text(client, server)

    h2.run(scenario)

    assert server.counters().bytes_received < 2_000_000
