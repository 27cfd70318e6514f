"""The scripted server's HTTP/2: every operation's frames, as a raw client sees them."""

from __future__ import annotations

import random
import socket
import ssl
import threading

import httpx2
import pytest

import server_reference
from server_reference.scripted import ManualClock, rule
from server_reference.scripted.hooks import Observer
from server_reference.scripted.ops import (
    Body,
    End,
    Fin,
    GoAway,
    HalfClose,
    Head,
    NoCloseNotify,
    Pause,
    Raw,
    Reset,
    ResetStream,
    Settings,
    Starve,
    Wait,
)
from tests.end_to_end.raw_http import until
from tests.end_to_end.raw_http2 import PREFACE, RawHttp2

OK = [Head(200), Body(b"ok"), End()]
HEAD = ("HEADERS", 1, {":status": "200"})
ANSWERED = [HEAD, ("DATA", 1, b"ok"), ("END", 1)]


class Watcher(Observer):
    """What was told, in order, for whoever waits for it."""

    def __init__(self):
        self.seen = []
        self._changed = threading.Condition()

    def note(self, *what):
        with self._changed:
            self.seen.append(what)
            self._changed.notify_all()

    def connection_closed(self, connection, reason):
        self.note("closed", connection.protocol, reason)

    def request(self, received):
        self.note("request", received.stream_id, received.body)

    def wrote(self, received, op, num_bytes):
        self.note("wrote", type(op).__name__, num_bytes)

    def ended(self, received, how):
        self.note("ended", received.stream_id, how)

    def broke(self, received, error):
        self.note("broke", received.stream_id, type(error).__name__)

    def wait_for(self, *what):
        with self._changed:
            assert self._changed.wait_for(lambda: what in self.seen, 10), (what, self.seen)


@pytest.fixture
def watcher():
    return Watcher()


@pytest.fixture
def play(watcher):
    """Starts a server that plays `then`, and a raw client of it."""
    opened = []

    def playing(then, *, settings=None, **config):
        server = server_reference.scripted(then, observers=[watcher], **config)
        opened.append(server)
        client = RawHttp2(server, settings=settings)
        opened.insert(0, client)
        return client

    yield playing
    for one in opened:
        one.close() if isinstance(one, RawHttp2) else one.stop()


def asked(client):
    """What comes for one request until the connection ends."""
    client.ask()
    return client.to_the_end()


# Each operation.


def test_a_reply_is_headers_data_and_an_end(play):
    client = play(OK)

    client.ask()

    assert client.until("END") == ANSWERED


def test_header_fields_are_small_and_none_of_them_is_of_http1(play):
    fields = (("X-Odd", "é"), ("Connection", "close"), ("Transfer-Encoding", "chunked"))
    client = play([Head(529, fields, framing="length", length=7), End()])

    client.ask()

    expected = {":status": "529", "x-odd": "é", "content-length": "7"}
    assert client.until("END") == [("HEADERS", 1, expected), ("END", 1)]


def test_each_body_is_a_frame_of_its_own_an_empty_one_too(play):
    client = play([Head(200), Body(b"a"), Body(b""), Body(b"bc"), End()])

    client.ask()

    bodies = [("DATA", 1, b"a"), ("DATA", 1, b""), ("DATA", 1, b"bc")]
    assert client.until("END") == [HEAD, *bodies, ("END", 1)]


def test_a_wait_passes_on_the_clock_of_the_server(play, watcher):
    clock = ManualClock()
    client = play([Head(200), Body(b"a"), Wait(60), Body(b"b"), End()], clock=clock)
    client.ask()
    before = client.until("DATA")
    watcher.wait_for("wrote", "Wait", 0)

    until(lambda: clock.sleeping)
    clock.advance(60)

    assert before == [HEAD, ("DATA", 1, b"a")]
    assert client.until("END") == [("DATA", 1, b"b"), ("END", 1)]


def test_a_pause_hangs_one_stream_and_no_other(play):
    client = play([rule([Head(200), Pause()], path="/hang"), rule(OK)])
    client.ask(1, "/hang")
    client.until("HEADERS", 1)

    client.ask(3)

    assert client.until("END", 3)[-1] == ("END", 3)


def test_a_script_without_an_end_hangs(play):
    client = play([Head(200), Body(b"ok")])
    client.ask()
    client.until("DATA", 1)

    client.ping()

    assert client.until("PONG") == [("PONG", b"12345678")]


def test_a_stream_is_reset_with_its_code(play, watcher):
    client = play([Head(200), Body(b"ok"), ResetStream(7)])

    client.ask()

    assert client.until("RST") == [HEAD, ("DATA", 1, b"ok"), ("RST", 1, 7)]
    watcher.wait_for("ended", 1, "cut")
    client.ask(3)
    assert client.until("RST")[-1] == ("RST", 3, 7)


def test_goaway_names_the_newest_stream_and_its_reply_goes_on(play):
    client = play([GoAway(), *OK])

    client.ask()

    assert client.until("END") == [("GOAWAY", 1, 0), *ANSWERED]


def test_streams_after_a_goaway_are_not_taken(play, watcher):
    client = play([GoAway(last_stream_id=1, code=2), *OK])
    client.ask(1)
    told = client.until("END")

    client.ask(3)
    client.ping()

    assert told[0] == ("GOAWAY", 1, 2)
    assert client.until("PONG") == [("PONG", b"12345678")]
    assert ("request", 3, b"") not in watcher.seen


def test_goaway_may_say_that_nothing_was_processed(play, watcher):
    client = play([GoAway(last_stream_id=0), Fin()])

    assert asked(client) == [("GOAWAY", 0, 0)]
    assert client.closed_by == "fin"
    watcher.wait_for("ended", 1, "cut")


def test_settings_are_sent_by_name_right_or_wrong(play):
    values = (("MAX_CONCURRENT_STREAMS", 1), ("MAX_FRAME_SIZE", 1), ("ENABLE_PUSH", 7))
    client = play([Settings(values), *OK])

    client.ask()

    assert client.until("END") == [("SETTINGS", {3: 1, 5: 1, 2: 7}), *ANSWERED]


def test_fewer_streams_count_from_the_clients_acknowledgement_on(play):
    lower = Settings((("MAX_CONCURRENT_STREAMS", 1),))
    client = play([rule([lower, *OK], path="/lower"), rule([Head(200), Pause()])])
    client.ask(1, "/lower")
    client.until("END", 1)

    for number in (3, 5):
        client.ask(number)

    seen = [client.frame(), client.frame()]
    assert sorted(seen, key=str) == [("HEADERS", 3, {":status": "200"}), ("RST", 5, 7)]


def test_a_stream_too_many_is_refused_from_the_start(play):
    client = play([Head(200), Pause()], http2_settings={"MAX_CONCURRENT_STREAMS": 1})

    client.ask(1)
    client.ask(3)

    assert client.first == ("SETTINGS", {3: 1, 6: 65_536})
    assert client.until("RST")[-1] == ("RST", 3, 7)


def test_windows_are_granted_as_they_are_used(play, watcher):
    client = play(OK)

    client.begin()
    client.data(1, bytes(16_384))
    client.data(1, bytes(16_384))
    client.data(1, b"!", ends=True)

    granted = [one for one in client.until("END") if one[0] == "WINDOW"]
    assert granted == [("WINDOW", 0, 32_768), ("WINDOW", 1, 32_768)]
    assert ("request", 1, bytes(32_768) + b"!") in watcher.seen


def test_who_sends_past_the_announced_window_is_refused(play, watcher):
    client = play(OK, http2_settings={"INITIAL_WINDOW_SIZE": 4})
    client.begin()

    client.data(1, b"12345")

    assert client.to_the_end()[-1] == ("GOAWAY", 1, 3)
    watcher.wait_for("closed", "h2", "bad request")


def test_a_starved_client_is_granted_nothing_more(play):
    client = play([Starve(), *OK])
    client.ask()
    client.until("END", 1)

    client.begin(3)
    for _ in range(3):
        client.data(3, bytes(16_384))
    client.ping()

    assert client.until("PONG") == [("PONG", b"12345678")]


@pytest.mark.parametrize(
    ("op", "tls", "how", "reason"),
    [
        pytest.param(Fin(), False, "fin", "server", id="fin"),
        pytest.param(Fin(), True, "fin", "server", id="fin-tls"),
        pytest.param(Reset(), False, "reset", "server reset", id="reset"),
        pytest.param(NoCloseNotify(), True, "no close_notify", "server", id="no-close-notify"),
    ],
)
def test_a_script_closes_the_connection(play, watcher, op, tls, how, reason):
    clock = ManualClock()
    client = play([Head(200), Body(b"ok"), Wait(1), op], tls=tls, clock=clock)
    client.ask()
    seen = client.until("DATA", 1)
    until(lambda: clock.sleeping)

    clock.advance(1)

    assert seen == [HEAD, ("DATA", 1, b"ok")]
    assert (client.to_the_end(), client.closed_by) == ([], how)
    watcher.wait_for("closed", "h2", reason)
    assert ("ended", 1, "cut") in watcher.seen


def test_a_close_cuts_the_other_streams_too(play, watcher):
    client = play([rule([Head(200), Pause()], path="/hang"), rule([Fin()])])
    client.ask(1, "/hang")
    client.until("HEADERS", 1)

    client.ask(3)

    assert client.to_the_end() == []
    watcher.wait_for("ended", 1, "cut")


def test_half_a_connection_may_close(play, watcher):
    client = play([Head(200), HalfClose()])

    assert asked(client) == [HEAD]
    assert client.closed_by == "fin"
    client.close()
    watcher.wait_for("closed", "h2", "server")


def test_what_is_of_http1_alone_is_left_out(play):
    client = play([Head(200), Raw(b"\0garbage"), Body(b"ok"), End()])

    client.ask()

    assert client.until("END") == ANSWERED


def test_a_body_after_the_end_is_data_on_a_closed_stream(play):
    client = play([*OK, Body(b"more")])

    client.ask()

    assert client.until("DATA", 1, b"more") == [*ANSWERED, ("DATA", 1, b"more")]


def test_what_an_operation_puts_on_the_wire_is_told_with_its_size(play, watcher):
    client = play([Head(200), Body(b"ok"), Wait(0), End()])

    client.ask()
    client.until("END")

    watcher.wait_for("ended", 1, "complete")
    wrote = [one[1:] for one in watcher.seen if one[0] == "wrote"]
    assert wrote == [("Head", 10), ("Body", 11), ("Wait", 0), ("End", 9)]


# Flow control and many streams.


@pytest.mark.parametrize("op", [Wait(0), Body(b"")], ids=["waits", "at-once"])
def test_a_body_goes_as_far_as_the_window_of_its_stream(play, op):
    client = play([Head(200), op, Body(b"abcdef"), End()], settings={4: 4})
    client.ask()
    first = client.until("DATA", 1, b"abcd")

    client.grant(1, 100)

    assert first[-1] == ("DATA", 1, b"abcd")
    assert client.until("END") == [("DATA", 1, b"ef"), ("END", 1)]


def test_a_body_goes_as_far_as_the_window_of_the_connection(play):
    client = play([Head(200), Body(bytes(70_000)), End()], settings={4: 2**20})
    client.ask()
    seen = 0
    while seen < 65_535:
        seen += sum(len(one[2]) for one in client.until("DATA") if one[0] == "DATA")

    client.grant(0, 10_000)

    rest = client.until("END")
    assert seen == 65_535
    assert sum(len(one[2]) for one in rest[:-1]) == 70_000 - 65_535


def test_a_larger_initial_window_lets_open_streams_go_on(play):
    client = play([Head(200), Body(b"abcdef"), End()], settings={4: 4})
    client.ask()
    client.until("DATA", 1, b"abcd")

    client.settings({4: 100})

    assert client.until("END") == [("DATA", 1, b"ef"), ("END", 1)]


def test_a_stream_without_window_holds_up_no_other(play):
    client = play([rule([Head(200), Body(b"abcdef"), End()], path="/big"), rule(OK)])
    client.settings({4: 2})
    client.ask(1, "/big")
    client.until("DATA", 1, b"ab")

    client.ask(3)

    seen = client.until("END", 3)
    assert seen == [("HEADERS", 3, {":status": "200"}), ("DATA", 3, b"ok"), ("END", 3)]


def test_a_large_body_is_cut_at_the_largest_frame(play):
    client = play([Head(200), Body(bytes(20_000)), End()])

    client.ask()

    sizes = [len(one[2]) for one in client.until("END") if one[0] == "DATA"]
    assert sizes == [16_384, 20_000 - 16_384]


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_body_has_none(play, status):
    client = play([Head(status), Body(b"not sent"), End()])

    client.ask()

    assert client.until("END") == [("HEADERS", 1, {":status": str(status)}), ("END", 1)]


def test_a_head_is_answered_without_body(play):
    client = play(OK)

    client.ask(method="HEAD")

    assert client.until("END") == [HEAD, ("END", 1)]


def test_informational_heads_go_before_the_reply(play):
    client = play([Head(103, (("link", "</a>"),)), *OK])

    client.ask()

    early = ("HEADERS", 1, {":status": "103", "link": "</a>"})
    assert client.until("END") == [early, *ANSWERED]


def test_who_expects_100_is_told_to_continue(play):
    client = play(OK)
    client.send(client.head(1, "/", "POST", ("expect", "100-continue"), ends=False))
    told = client.until("HEADERS")

    client.data(1, b"body", ends=True)

    assert told == [("HEADERS", 1, {":status": "100"})]
    assert client.until("END") == ANSWERED


def test_a_request_too_large_is_refused_and_the_connection_lives(play, watcher):
    client = play(OK, max_body_bytes=10)
    client.begin(1)

    client.data(1, bytes(11))

    refused = ("HEADERS", 1, {":status": "413", "content-length": "0"})
    assert client.until("RST") == [refused, ("RST", 1, 0)]
    client.ask(3)
    assert client.until("END")[-1] == ("END", 3)


# What a request is.


def test_a_request_is_seen_as_over_http1(play):
    seen = []

    def look(received):
        seen.append(received)
        return OK

    client = play(look)
    client.ask(1, "/a?b=c", ("x-one", "1"), ("cookie", "a=1"), ("cookie", "b=2"), body=b"body")
    client.until("END")

    [one] = seen
    assert (one.method, one.target, one.body) == ("POST", "/a?b=c", b"body")
    assert one.headers == (("host", "a"), ("x-one", "1"), ("cookie", "a=1; b=2"))
    assert (one.protocol, one.stream_id, one.connection) == ("h2", 1, 1)


# The client breaks off.


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([Head(200), Body(b"ok"), Pause()], id="pause"),
        pytest.param([Head(200), Body(b"ok"), Wait(1e9)], id="wait"),
        pytest.param([Head(200), Body(b"ok"), Body(bytes(10**6)), End()], id="window"),
    ],
)
def test_a_stream_that_the_client_resets_is_an_abandoned_reply(play, watcher, script):
    client = play([rule(script, path="/long"), rule(OK)], clock=ManualClock())
    client.ask(1, "/long")
    client.until("DATA", 1)

    client.reset(1)

    watcher.wait_for("ended", 1, "abandoned")
    client.grant(0, 10**6)
    client.ask(3)
    assert client.until("END", 3)[-1] == ("END", 3)


def test_a_request_reset_with_its_last_bytes_is_abandoned_unplayed(play, watcher):
    client = play(OK)
    head = client.head(1, "/", "POST", ends=True).serialize()

    client.sock.sendall(head + b"\0\0\4\3\0\0\0\0\1\0\0\0\x08")

    watcher.wait_for("request", 1, b"")
    client.ask(3)
    assert client.until("END") == [
        ("HEADERS", 3, {":status": "200"}),
        ("DATA", 3, b"ok"),
        ("END", 3),
    ]
    assert ("ended", 1, "abandoned") in watcher.seen


@pytest.mark.parametrize("last", [Pause(), HalfClose()], ids=["pause", "half-close"])
def test_a_script_is_no_longer_played_when_nobody_listens(play, last):
    over = threading.Event()

    async def live(received):
        try:
            yield Head(200)
            yield last
        finally:
            over.set()

    client = play(live)
    client.ask()
    client.until("HEADERS")

    client.close() if isinstance(last, HalfClose) else client.reset(1)

    assert over.wait(10)


def test_streams_that_are_abandoned_make_room(play, watcher):
    client = play([Head(200), Pause()], http2_settings={"MAX_CONCURRENT_STREAMS": 2})

    for number in range(1, 41, 2):
        client.ask(number)
        client.until("HEADERS", number)
        client.reset(number)

    watcher.wait_for("ended", 39, "abandoned")


def test_a_connection_that_the_client_closes_abandons_its_streams(play, watcher):
    client = play([Head(200), Pause()])
    for number in (1, 3):
        client.ask(number)
        client.until("HEADERS", number)

    client.close()

    watcher.wait_for("closed", "h2", "client")
    ends = [one for one in watcher.seen if one[0] == "ended"]
    assert ends == [("ended", 1, "abandoned"), ("ended", 3, "abandoned")]


def test_a_server_that_stops_tells_of_what_it_broke_off(watcher):
    hang = [Head(200), Pause()]
    with (
        server_reference.scripted(hang, observers=[watcher]) as server,
        RawHttp2(server) as client,
    ):
        client.ask()
        client.until("HEADERS")
        server.stop()

    assert watcher.seen[-2:] == [("ended", 1, "stopped"), ("closed", "h2", "stopped")]


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
    with (
        server_reference.scripted(OK, observers=[watcher]) as server,
        over(server) as client,
    ):
        threads = [threading.Thread(target=client.get, args=("/any",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sum(one[0] == "closed" for one in watcher.seen) == 1
    assert sum(one == ("ended", one[1], "complete") for one in watcher.seen) == 8


def test_httpx2_sends_again_what_goaway_left_unprocessed():
    script = [OK, [GoAway(last_stream_id=1), Fin()], OK]
    with server_reference.scripted(script) as server, over(server) as client:
        replies = [client.post("/any", content=b"body").content for _ in range(2)]

    assert replies == [b"ok", b"ok"]


def over(server):
    trust = ssl.create_default_context(cafile=server.ca_file)
    return httpx2.Client(http1=False, http2=True, verify=trust, base_url=server.base_url)
