"""The scripted server's HTTP/2 with clients that send bad frames, and with a real one."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl

import httpx2
import pytest
from hyperframe.frame import DataFrame

import server_reference
from server_reference.scripted import rule
from server_reference.scripted.ops import Body, End, Fin, GoAway, Head, Wait
from tests.end_to_end.http2_player import ANSWERED, HEAD, OK
from tests.end_to_end.raw_http2 import PREFACE, RawHttp2

# Bad frames.


@pytest.mark.parametrize(
    "junk",
    [
        pytest.param(b"\0\0\0\x09\0\0\0\0\1", id="naked-continuation"),
        pytest.param(b"\0\0\5\0\0\0\0\0\0hello", id="data-on-stream-0"),
        pytest.param(b"\0\0\1\0\0\0\0\0\5x", id="data-on-an-idle-stream"),
        pytest.param(b"\0\0\5\4\0\0\0\0\0hello", id="settings-of-odd-size"),
        pytest.param(b"\0\0\3\1\5\0\0\0\1\xff\xff\xff", id="headers-that-do-not-decode"),
        pytest.param(b"\0\0\4\x08\0\0\0\0\0\0\0\0\0", id="window-of-nothing"),
        pytest.param(b"\0\0\4\x08\0\0\0\0\0\x7f\xff\xff\xff", id="window-past-its-end"),
        pytest.param(b"\0\0\x08\6\0\0\0\0\1pingpong", id="ping-on-a-stream"),
    ],
)
def test_bad_frames_are_answered_with_goaway_and_a_close(play, watcher, junk):
    client = play(OK)

    client.sock.sendall(junk)

    assert [one[0] for one in client.to_the_end()] == ["GOAWAY"]
    watcher.wait_for("closed", "h2", "bad request")


@pytest.mark.parametrize("seed", range(12))
def test_the_server_outlives_frames_at_random(seed, recwarn, caplog):
    """Well-formed heads, random kinds, flags and payloads; then one client that behaves."""
    chance = random.Random(seed)
    with server_reference.scripted(OK) as server:
        for _ in range(12):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
                sock.sendall(PREFACE + b"\0\0\0\4\0\0\0\0\0" + frames_at_random(chance))
                sock.shutdown(socket.SHUT_WR)
                while ended_in_order(sock):
                    pass

        with RawHttp2(server) as client:
            client.ask()
            assert client.until("END") == ANSWERED

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def frames_at_random(chance):
    def frame():
        payload = chance.choice([chance.randbytes(chance.randrange(40)), b"\x82\x84\x86\x87"])
        head = len(payload).to_bytes(3, "big") + bytes([chance.randrange(11), chance.randrange(64)])
        return head + chance.choice([0, 1, 1, 3, 5]).to_bytes(4, "big") + payload

    return b"".join(frame() for _ in range(chance.randrange(1, 20)))


def ended_in_order(sock):
    try:
        return sock.recv(65_536)
    except ConnectionResetError:
        return b""


def test_a_script_that_cannot_be_played_breaks_one_connection_alone(play, watcher, caplog):
    client = play([rule([Head(200), Wait(0), Head(200), End()], path="/twice"), rule(OK)])

    client.ask(1, "/twice")

    assert client.to_the_end() == [HEAD]
    watcher.wait_for("broke", 1, "ProtocolError")
    assert "could not be answered" in caplog.text


# Which protocol, and a real client.


@pytest.mark.parametrize(
    ("http2", "protocol"), [pytest.param(True, "h2", id="h2"), pytest.param(False, "http/1.1")]
)
def test_alpn_chooses(http2, protocol):
    with server_reference.scripted(OK, tls=True, http2=http2) as server:
        context = ssl.create_default_context(cafile=server.ca_file)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as secured,
        ):
            assert secured.selected_alpn_protocol() == protocol


@pytest.mark.parametrize("tls", [False, True], ids=["prior-knowledge", "alpn"])
def test_httpx2_reads_a_stream_over_http2(tls):
    with server_reference.scripted("Hello there, you", tls=tls) as server, over(server) as client:
        body = {"model": "m", "max_tokens": 9, "stream": True, "messages": []}
        with client.stream("POST", "/v1/messages", json=body) as reply:
            lines = list(reply.iter_lines())

    assert reply.http_version == "HTTP/2"
    assert "event: message_stop" in lines
    assert any("Hello" in line for line in lines)


def test_httpx2_uploads_and_downloads_more_than_a_window(watcher):
    def echo(received):
        return [Head(200), Body(received.body), End()]

    with server_reference.scripted(echo) as server, over(server) as client:
        for size in (0, 300_000, 1_000_000):
            assert client.post("/any", content=bytes(size)).content == bytes(size)


def test_httpx2_streams_share_a_connection(watcher):
    """Of one loop: httpcore2 2.16 takes stream ids without a lock, and threads may get the same."""

    async def main():
        async with over(server, httpx2.AsyncClient) as client:
            await asyncio.gather(*(client.get("/any") for _ in range(8)))

    with server_reference.scripted(OK, observers=[watcher]) as server:
        asyncio.run(main())

    assert sum(one[0] == "closed" for one in watcher.seen) == 1
    assert sum(one == ("ended", one[1], "complete") for one in watcher.seen) == 8


def test_httpx2_sends_again_what_goaway_left_unprocessed():
    script = [OK, [GoAway(last_stream_id=1), Fin()], OK]
    with server_reference.scripted(script) as server, over(server) as client:
        replies = [client.post("/any", content=b"body").content for _ in range(2)]

    assert replies == [b"ok", b"ok"]


def over(server, make=httpx2.Client):
    trust = ssl.create_default_context(cafile=server.ca_file)
    return make(http1=False, http2=True, verify=trust, base_url=server.base_url)


def test_a_goaway_reaches_a_client_that_is_still_sending(play):
    client = play(OK)

    client.send(*[DataFrame(5, bytes(16_000))] * 200)

    assert client.to_the_end()[-1][0] == "GOAWAY"
    assert client.closed_by == "fin"
