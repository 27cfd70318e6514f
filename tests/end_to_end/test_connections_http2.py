"""HTTP/2 end to end: many calls on one connection, and none in another's way."""

from __future__ import annotations

import pytest

from server_reference.scripted import Answer, fault, rule
from server_reference.scripted.ops import Body, End, Head, Pause
from smartclient._call import Headers, Timeout
from smartclient._errors import ExchangeError
from tests.end_to_end.http2_sides import until
from tests.end_to_end.net_sides import read_all

HANGING = [Head(200), Body(b"begun"), Pause()]
LIMITS = {"connect": 5.0, "pool": 5.0, "write": 5.0}


def test_calls_share_a_connection_and_say_so(h2):
    server = h2.serving()

    async def scenario():
        client = h2.client(server)
        first, one = await h2.chat(client, server)
        assert b"[DONE]" in await read_all(first)
        second, other = await h2.chat(client, server)
        assert b"[DONE]" in await read_all(second)
        assert (one.protocol, one.reused, other.reused) == ("HTTP/2", False, True)
        assert (other.tcp, other.tls) == (None, None)
        assert h2.counts() == (1, 0, 0)

    h2.run(scenario)

    assert server.counters().connections_opened == 1


def test_headers_and_body_arrive_as_they_were_sent(h2):
    def echo(received):
        fields = tuple((name, value) for name, value in received.headers if name[:2] == "x-")
        return [Head(201, fields=fields), Body(received.body), End()]

    server = h2.serving(rule(echo))
    body = bytes(range(256)) * 8_000

    async def scenario():
        client = h2.client(server)
        headers = [("X-Api-Key", "secret"), ("Connection", "close"), ("X-a", "")]
        reply, _ = await client.send(
            f"{server.base_url}/echo?a=b", body=body, headers=Headers(headers)
        )
        assert (reply.status, reply.reason) == (201, "")
        assert list(reply.headers) == [("x-api-key", "secret"), ("x-a", "")]
        assert await read_all(reply) == body

    h2.run(scenario)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_body_may_be_made_piece_by_piece(h2, method):
    server = h2.serving(rule(lambda received: [Head(200), Body(received.body), End()]))

    async def scenario():
        sent = await h2.client(server).fetch(
            server.base_url, method=method, body=iter([b"one ", b"", b"two"])
        )
        assert sent == b"one two"

    h2.run(scenario)


def test_error_in_the_callers_body_is_the_callers_and_resets_the_stream(h2):
    server = h2.serving()

    def body():
        yield b"piece"
        raise OSError("the file is gone")

    async def scenario():
        client = h2.client(server)
        with pytest.raises(OSError, match="the file is gone"):
            await client.fetch(server.base_url, body=body())
        assert b"[DONE]" in await h2.text(client, server)

    h2.run(scenario)

    assert server.counters().connections_opened == 1


def test_left_stream_is_reset_and_the_connection_goes_on(h2):
    server = h2.serving([rule(HANGING, path="/hang"), rule("Hello")])

    async def scenario():
        client = h2.client(server)
        reply, _ = await client.send(f"{server.base_url}/hang")
        await reply.close()
        assert b"[DONE]" in await h2.text(client, server)

    h2.run(scenario)

    counted = server.counters()
    assert (counted.resets_seen, counted.connections_opened, counted.streams_open) == (1, 1, 0)


def test_after_the_terminal_event_the_end_is_awaited_instead_of_a_reset(h2):
    server = h2.serving()

    async def scenario():
        client = h2.client(server)
        for _ in range(3):
            reply, _ = await h2.chat(client, server)
            body = b""
            while b"[DONE]" not in body:
                body += await reply.read()
            await reply.close(finished=True)

    h2.run(scenario)

    counted = server.counters()
    assert (counted.resets_seen, counted.connections_opened) == (0, 1)


def test_end_that_does_not_come_is_cut_within_the_bounds(h2):
    server = h2.serving([rule(HANGING, path="/hang")])

    async def scenario():
        reply, _ = await h2.client(server).send(f"{server.base_url}/hang")
        await reply.close(finished=True)
        await until(lambda: h2.counts().active == 0)

    h2.run(scenario)

    assert server.counters().resets_seen == 1


def test_silence_is_a_timeout_of_its_stream_alone(h2):
    server = h2.serving([rule(HANGING, path="/hang"), rule(Answer("Hello"))])

    async def scenario():
        client = h2.client(server)
        others = [await client.send(f"{server.base_url}/hang") for _ in range(4)]
        late, _ = await client.send(f"{server.base_url}/hang", timeout=Timeout(read=0.05, **LIMITS))
        with pytest.raises(ExchangeError) as error:
            await read_all(late)
        assert error.value.kind == "read_timeout"
        assert [await reply.read() for reply, _ in others] == [b"begun"] * 4
        assert b"[DONE]" in await h2.text(client, server)
        for reply, _ in others:
            await reply.close()

    h2.run(scenario)

    counted = server.counters()
    assert (counted.resets_seen, counted.connections_opened) == (5, 1)


def test_slow_reader_slows_down_only_itself(h2):
    large = Answer("Hello") | fault("window_filling_body", mib=2.0)
    server = h2.serving([rule(large, path="/v1/chat/completions", times=1), rule("Hello")])

    async def scenario():
        client = h2.client(server)
        slow, _ = await h2.chat(client, server)
        for _ in range(3):
            assert b"[DONE]" in await h2.text(client, server)
        assert len(await read_all(slow)) > 2**21

    h2.run(scenario)

    assert server.counters().connections_opened == 1


def test_closing_a_client_resets_its_streams_only(h2):
    server = h2.serving([rule(HANGING, path="/hang"), rule("Hello")])

    async def scenario():
        ours, theirs = h2.client(server), h2.client(server)
        reply, _ = await ours.send(f"{server.base_url}/hang")
        kept, _ = await theirs.send(f"{server.base_url}/hang")
        await ours.close()
        await reply.read()  # what had come
        with pytest.raises(ExchangeError, match="cut on this side"):
            await reply.read()
        with pytest.raises(RuntimeError, match="this client is closed"):
            await h2.text(ours, server)
        assert await kept.read() == b"begun"
        await kept.close()
        assert b"[DONE]" in await h2.text(theirs, server)

    h2.run(scenario)

    assert server.counters().connections_opened == 1


def test_dropped_reply_frees_its_stream(h2):
    server = h2.serving([rule(HANGING, path="/hang")])

    async def scenario():
        client = h2.client(server)
        reply, _ = await client.send(f"{server.base_url}/hang")
        del reply
        await until(lambda: h2.counts().active == 0)

    h2.run(scenario)

    assert server.counters().resets_seen == 1
