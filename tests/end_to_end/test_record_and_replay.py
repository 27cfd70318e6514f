"""A real server recorded over sockets, and replayed, byte by byte."""

from __future__ import annotations

import json
import math
import socket
from pathlib import Path

import openai
import pytest

import server_reference
from server_reference.scripted import Answer, Authority, ManualClock, Recorder, Replay
from server_reference.scripted.ops import Body, End, Fin, Head, Raw, Reset, Wait
from server_reference.scripted.recording import Recording
from tests.end_to_end.raw_http import until
from tests.end_to_end.raw_http2 import RawHttp2
from tests.server_reference.scripted.raw_client import KEY, RawClient, chat

ODD = Body("é".encode()[:1]), Body("é".encode()[1:]), Body(b"\xff\0"), Body(b"")
CHUNKED = [Head(200, (("X-Odd", "é"), ("request-id", "r1")), "Fine"), *ODD, End()]


@pytest.fixture
def calls(tmp_path):
    return tmp_path / "calls.json"


def recorded_at(upstream, calls, *bodies, **options):
    """What a client gets through the recorder."""
    with server_reference.scripted(Recorder(upstream.base_url, calls, **options)) as server:
        return answers(server, *bodies)


def replayed(calls, *bodies, **options):
    with server_reference.scripted(Replay(calls, speed=math.inf, **options)) as server:
        return answers(server, *bodies)


def answers(server, *bodies, **headers):
    with RawClient(server, **headers) as client:
        return [client.ask(body) for body in bodies]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(CHUNKED, id="chunked"),
        pytest.param([Head(200, framing="length", length=2), Body(b"ok"), End()], id="length"),
        pytest.param([Head(200, framing="close"), Body(b"ok"), End()], id="until-close"),
        pytest.param([Head(204), End()], id="no-body"),
        pytest.param([Head(200, framing="length", length=0), End()], id="empty"),
        pytest.param([Head(529, (("retry-after", "7"),)), Body(b"{}"), End()], id="error"),
        pytest.param([Head(200), Body(b"x" * 200_000), End()], id="large"),
        pytest.param([Head(200, framing="length", length=9), Body(b"ok"), Fin()], id="cut-length"),
        pytest.param([Head(200), Body(b"ok"), Wait(0), Fin()], id="cut-chunked"),
    ],
)
def test_what_is_recorded_is_replayed_byte_by_byte(calls, script):
    with server_reference.scripted(script) as upstream:
        expected = joined(to_the_end(upstream))
        with server_reference.scripted(Recorder(upstream.base_url, calls)) as server:
            through = joined(to_the_end(server))

    with server_reference.scripted(Replay(calls, speed=math.inf)) as server:
        again = joined(to_the_end(server))

    assert [through, again] == [expected, expected]


def to_the_end(server):
    """A reply, and what follows it until the connection ends."""
    with RawClient(server, connection="close") as client:
        client.send(chat())
        return client.read(until=b"no such end")


def joined(reply):
    """A reply's head, its body without the framing of chunks, and whether that has its end."""
    head, _, body = reply.partition(b"\r\n\r\n")
    if b"chunked" not in head:
        return head, body, None
    is_whole = body.endswith(b"\r\n0\r\n\r\n")
    pieces = []
    while body:
        size, _, body = body.partition(b"\r\n")
        pieces.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]
    return head, b"".join(pieces), is_whole


def test_a_reset_is_replayed_as_a_reset(calls):
    clock = ManualClock()
    script = [Head(200), Body(b"ok"), Wait(1), Reset()]
    with (
        server_reference.scripted(script, clock=clock) as upstream,
        server_reference.scripted(Recorder(upstream.base_url, calls)) as server,
        RawClient(server) as client,
    ):
        client.send(chat())
        client.read(until=b"ok")
        until(lambda: clock.sleeping)
        clock.advance(1)
        client.read()

    [one] = Recording.load(calls).exchanges
    assert one.reply.ending == "reset"


def test_a_reply_is_passed_on_while_it_comes(calls):
    clock = ManualClock()
    script = [Head(200), Body(b"first"), Wait(60), Body(b"last"), End()]
    with (
        server_reference.scripted(script, clock=clock) as upstream,
        server_reference.scripted(Recorder(upstream.base_url, calls)) as server,
        RawClient(server) as client,
    ):
        client.send(chat())

        early = client.read(until=b"first")
        until(lambda: clock.sleeping)
        clock.advance(60)

        assert b"last" not in early
        assert b"last" in client.read(until=b"0\r\n\r\n")


def test_the_pace_is_recorded_and_kept(calls):
    ticks = iter([0.0, 0.5, 0.75, 2.0])
    script = [Head(200, framing="length", length=2), Body(b"ok"), End()]
    with server_reference.scripted(script) as upstream:
        recorded_at(upstream, calls, chat(), now=lambda: next(ticks))

    [one] = Recording.load(calls).exchanges

    waits = [op.seconds for op in Replay(calls)._script(one) if isinstance(op, Wait)]
    assert waits == [0.5, 0.25, 1.25]


def test_exchanges_stand_in_the_order_in_which_they_were_asked(calls):
    clock = ManualClock()

    def slow_first(received):
        wait = [Wait(60)] if received.last_user_text == "slow" else []
        return [*wait, Head(200), Body(b"ok"), End()]

    with (
        server_reference.scripted(slow_first, clock=clock) as upstream,
        server_reference.scripted(Recorder(upstream.base_url, calls)) as server,
        RawClient(server) as slow,
    ):
        slow.send(chat("slow"))
        until(lambda: clock.sleeping)
        answers(server, chat("fast"))
        clock.advance(60)
        slow.read()

    asked = [json.loads(one.request.body.data) for one in Recording.load(calls).exchanges]
    assert [one["messages"][0]["content"] for one in asked] == ["slow", "fast"]


def test_no_secret_reaches_the_file(calls):
    def tell(received):
        fields = (("set-cookie", "session=cookie-0123456789"), ("x-you", KEY))
        pieces = KEY[:5], f"{KEY[5:]} cookie-", "0123456789"
        return [Head(200, fields), *(Body(piece.encode()) for piece in pieces), End()]

    with server_reference.scripted(tell) as upstream:
        [through] = recorded_at(upstream, calls, chat(f"my key is {KEY}"))

    text = calls.read_text()
    assert KEY in joined(through)[1].decode()
    assert KEY not in text
    assert KEY[5:] not in text
    assert "0123456789" not in text
    assert replayed(calls, chat(f"my key is {KEY}"))[0].startswith(b"HTTP/1.1 200 OK")


def test_a_declared_length_follows_what_was_left_out(calls):
    body = f"key {KEY}".encode()
    script = [Head(200, framing="length", length=len(body)), Body(body), End()]
    with server_reference.scripted(script) as upstream:
        recorded_at(upstream, calls, chat())

    head, said, _ = joined(replayed(calls, chat())[0])

    assert said == b"key [redacted]"
    assert b"content-length: 14" in head


def test_who_leaves_early_loses_nothing_of_the_recording(calls):
    """The OpenAI SDK closes right after `[DONE]`."""
    clock = ManualClock()
    script = [Head(200), Body(b"data: [DONE]\n\n"), Wait(1), Body(b": bye\n\n"), End()]
    with (
        server_reference.scripted(script, clock=clock) as upstream,
        server_reference.scripted(Recorder(upstream.base_url, calls)) as server,
        RawClient(server) as client,
    ):
        client.send(chat())
        client.read(until=b"[DONE]")
        client.close()
        until(lambda: clock.sleeping)
        clock.advance(1)
        until(calls.exists)

    [one] = Recording.load(calls).exchanges
    assert one.reply.ending == "end"
    assert one.reply.writes[-1].data == b": bye\n\n"


def test_a_server_that_stops_keeps_what_had_come(calls):
    with (
        server_reference.scripted([Head(200), Body(b"ok")]) as upstream,
        server_reference.scripted(Recorder(upstream.base_url, calls)) as server,
        RawClient(server) as client,
    ):
        client.send(chat())
        client.read(until=b"ok")
        server.stop()

    [one] = Recording.load(calls).exchanges
    assert (one.reply.ending, one.reply.writes[0].data) == ("unfinished", b"ok")


OK = b"HTTP/1.1 200 OK\r\n"
CHUNK = OK + b"transfer-encoding: chunked\r\n\r\n2\r\nok\r\n"


@pytest.mark.parametrize(
    ("sent", "ending"),
    [
        pytest.param(OK + b"content-length: 2\r\n\r\nokmore", "end", id="bytes-after-the-end"),
        pytest.param((OK + b"content-length: 2\r\n\r\nok") * 2, "end", id="a-second-reply"),
        pytest.param(CHUNK + b"zz\r\n", "fin", id="a-size-that-is-none"),
    ],
)
def test_what_came_before_an_upstreams_mistake_is_recorded(calls, sent, ending):
    with server_reference.scripted([Raw(sent), Fin()]) as upstream:
        [reply] = recorded_at(upstream, calls, chat())

    [one] = Recording.load(calls).exchanges
    assert b"ok" in reply
    assert (one.reply.ending, [write.data for write in one.reply.writes]) == (ending, [b"ok"])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param([Fin()], b"it closed the connection", id="closes"),
        pytest.param(
            [Raw(b"HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"), Fin()],
            b"changes to another protocol",
            id="upgrades",
        ),
        pytest.param([Raw(b"SSH-2.0-x\r\n"), Fin()], b"gave no reply", id="no-http"),
        pytest.param(
            [Head(200, (("content-encoding", "gzip"),)), Body(b"x"), End()],
            b"encoded with gzip although identity was asked for",
            id="compressed",
        ),
    ],
)
def test_what_cannot_be_recorded_is_said_with_502(calls, script, said):
    with server_reference.scripted(script) as upstream:
        [reply] = recorded_at(upstream, calls, chat())

    assert reply.startswith(b"HTTP/1.1 502 Bad Gateway")
    assert said in reply
    assert not calls.exists()


def test_an_upstream_that_is_down_is_said_with_502(calls):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    with server_reference.scripted(Recorder(f"http://127.0.0.1:{port}", calls)) as server:
        [reply] = answers(server, chat())

    assert b"nothing was recorded" in reply
    assert b"x-should-retry: false" in reply


@pytest.mark.parametrize(
    "url", ["api.example", "ftp://api.example", "https://", "https://me:secret@api.example", ""]
)
def test_an_upstream_is_a_base_url(url, calls):
    with pytest.raises(ValueError, match="upstream must be like https://") as caught:
        Recorder(url, calls)

    assert "secret" not in str(caught.value)


def test_a_folder_is_no_file_to_record_to(tmp_path):
    with pytest.raises(ValueError, match="is a folder; name the file"):
        Recorder("https://api.example", tmp_path)


def test_a_file_that_cannot_be_written_is_loud(tmp_path, caplog):
    (tmp_path / "taken").write_text("")
    with server_reference.scripted("hi") as upstream:
        replies = recorded_at(upstream, tmp_path / "taken" / "calls.json", chat())

    assert not replies[0].endswith(b"0\r\n\r\n")
    assert "could not be answered" in caplog.text


def test_the_upstream_is_asked_what_the_client_asked_and_for_no_compression(calls):
    seen = []

    def look(received):
        seen.append(received)
        return "hi"

    with server_reference.scripted(look) as upstream:
        with server_reference.scripted(Recorder(f"{upstream.base_url}/proxy", calls)) as server:
            answers(server, chat(), accept_encoding="gzip", x_one="1")

        [one] = seen
        assert one.target == "/proxy/v1/chat/completions"
        assert one.body == chat()
        assert one.header("host") == f"127.0.0.1:{upstream.port}"
        assert one.header("accept-encoding") == "identity"
        assert one.header("authorization") == f"Bearer {KEY}"
        assert one.header("x-one") == "1"


def test_an_upstream_may_speak_tls_and_the_client_http2(calls):
    authority = Authority()
    with (
        server_reference.scripted("hi there", tls=authority) as upstream,
        server_reference.scripted(
            Recorder(upstream.base_url, calls, ca_file=authority.ca_file)
        ) as server,
        RawHttp2(server) as client,
    ):
        client.ask(1, "/v1/chat/completions", body=chat())
        seen = client.until("END")

    [one] = Recording.load(calls).exchanges
    assert seen[0][2][":status"] == "200"
    assert b"".join(frame[2] for frame in seen if frame[0] == "DATA") == b"".join(
        write.data for write in one.reply.writes
    )


@pytest.mark.sdk
def test_an_sdk_is_replayed_what_the_real_server_told_it(tiny_server, calls):
    upstream = Recorder(tiny_server.base_url, calls)
    with server_reference.scripted(upstream) as server:
        told = stream_through(server, tiny_server.api_key)

    with server_reference.scripted(Replay(calls, speed=math.inf)) as server:
        again = stream_through(server, "sk-of-someone-else")

    assert len(told) > 1
    assert again == told
    assert tiny_server.api_key not in Path(calls).read_text()


def stream_through(server, key):
    with openai.OpenAI(base_url=f"{server.base_url}/v1", api_key=key, max_retries=0) as client:
        stream = client.chat.completions.create(
            model="tiny",
            max_tokens=6,
            stream=True,
            messages=[{"role": "user", "content": "Hello"}],
        )
        return [chunk.to_dict() for chunk in stream]


def test_a_changed_request_is_refused_with_the_difference(calls):
    with server_reference.scripted("hi") as upstream:
        recorded_at(upstream, calls, chat("Hello"))

    [reply] = replayed(calls, chat("Hallo"))

    assert reply.startswith(b"HTTP/1.1 400")
    assert b"messages[0].content: recorded 'Hello', asked 'Hallo'" in reply
    assert b"no_rule" in reply


def test_a_request_asked_too_often_is_an_error_of_its_own(calls):
    with server_reference.scripted(Answer("hi")) as upstream:
        recorded_at(upstream, calls, chat())

    replies = replayed(calls, chat(), chat())

    assert replies[0].startswith(b"HTTP/1.1 200")
    assert b"rules_exhausted" in replies[1]
