"""The bytes of each fault of connections, heads, time and characters."""

from __future__ import annotations

import ssl

import pytest

import server_reference
from server_reference.scripted import Answer, ManualClock, rule
from server_reference.scripted.faults import fault, faults_at, greeting
from tests.end_to_end.fault_bytes import ANSWER, END, broken, case, expected, play, request, whole
from tests.end_to_end.scripted_raw import RawClient, outcome, wait_until

LATER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


def more(*fields):
    """A head's change: further fields before the framing."""

    def change(head):
        start, framing = head.rsplit(b"\r\n", 1)
        return b"\r\n".join([start, *fields, framing])

    return change


def none(chunks):
    return []


def lines_of(head):
    return [line + b"\r\n" for line in head.split(b"\r\n")]


CONNECTIONS = [
    case("close_after_request", end="fin"),
    case("close_after_request", idle=4, waited=4.0, end="fin"),
    case("keep_alive_header", head=more(b"keep-alive: timeout=4")),
    case("connection_close", head=more(b"connection: close"), end="fin"),
    case("no_reply", head=lambda h: b"", chunks=none, tail=b"", end="fin"),
    case("reset_before_reply", head=lambda h: b"", chunks=none, tail=b"", end="rst"),
    case("never_answers", head=lambda h: b"", chunks=none, tail=b""),
    case(
        "bad_status_line",
        head=lambda h: b"HTTP/1.1 twohundred OK\r\ncontent-length: 0",
        chunks=none,
        tail=b"",
        end="fin",
    ),
    case("bad_chunk_size", chunks=lambda c: c[:1], tail=b"zz\r\nnonsense\r\n", end="fin"),
    case("length_and_chunks", head=more(b"content-length: 5")),
    case(
        "endless_headers",
        fields=250,
        head=lambda h: (
            b"HTTP/1.1 200 OK\r\n"
            + b"".join(b"x-filler-%d: %s\r\n" % (n % 100, b"a" * 90) for n in range(250))
        ),
        chunks=none,
        tail=b"",
        end="fin",
    ),
    case("bytes_after_end", tail=END + LATER),
    case("stale_keepalive"),
    case("trickle", stream=False, bytes_per_second=100, at_once=10, waited=4.4),
    case(
        "stall_after",
        chunks=lambda c: c[:3],
        tail=b"",
    ),
    case(
        "pings_only",
        interval=10,
        pings=5,
        chunks=lambda c: [c[0], *[b": ping\n\n"] * 5],
        tail=b"",
        waited=50.0,
    ),
    case("silence_before_first_event", waited=30.0),
    case("slow_events", waited=6.0),
    case("slow_headers", waited=5.0),
    case(
        "abandonable_stream",
        repeats=3,
        waited=0.15,
        chunks=lambda c: [*c[:-1], *[b": ping\n\n"] * 3, c[-1]],
    ),
    case(
        "set_cookie_secret",
        head=more(b"set-cookie: session=secret-of-the-session; HttpOnly; Secure"),
    ),
    case(
        "unknown_encoding",
        head=more(b"content-encoding: x-rot13"),
    ),
    case("refused_encoding"),
    case(
        "no_requests_left",
        head=more(
            b"x-ratelimit-limit-requests: 50",
            b"x-ratelimit-remaining-requests: 0",
            b"x-ratelimit-reset-requests: 12s",
        ),
    ),
    case(
        "no_requests_left",
        api="anthropic.messages",
        head=more(
            b"anthropic-ratelimit-requests-limit: 50",
            b"anthropic-ratelimit-requests-remaining: 0",
            b"anthropic-ratelimit-requests-reset: 2023-11-14T22:13:32Z",
        ),
    ),
    case(
        "lone_surrogate",
        chunks=lambda c: [c[0], c[1].replace(b'"Hello"', b'"\\ud83dHello"'), *c[2:]],
    ),
    case(
        "lone_surrogate",
        half="low",
        api="anthropic.messages",
        chunks=lambda c: [e.replace(b'"Hello"', b'"\\ude00Hello"') for e in c],
    ),
    case(
        "invalid_utf8",
        chunks=lambda c: [c[0], c[1].replace(b'"Hello"', b'"\xc3\x28\xffHello"'), *c[2:]],
    ),
]


@pytest.mark.parametrize("one", CONNECTIONS, ids=lambda one: one.name)
def test_a_reply_breaks_exactly_so(one):
    assert broken(one) == expected(one)


def test_informational_replies_come_first():
    seen = play(ANSWER | fault("informational_1xx", status=100, times=1), stream=False)
    usual = whole("openai.chat", stream=False)

    assert seen.head == b"HTTP/1.1 100 Continue"
    assert seen.chunks == [usual.head + b"\r\n\r\n" + usual.chunks[0]]


def test_early_hints_have_a_link():
    seen = play(ANSWER | fault("informational_1xx"))
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload"

    assert seen.head == early
    assert seen.chunks[0].startswith(early + b"\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("how", "end"), [pytest.param("fin", None, id="fin"), ("reset", ConnectionResetError)]
)
def test_a_stale_connection_closes_on_the_second_request(how, end):
    with server_reference.scripted(ANSWER | fault("stale_keepalive", how=how)) as server:
        first, second = RawClient(server), RawClient(server)
        for client in (first, second):
            client.send(request())
            assert client.until(END).endswith(END)

        first.send(request())
        assert outcome(first) is end
        first.socket.close()
        second.socket.close()


def test_a_trickle_has_ten_bytes_in_a_write():
    """On a stream, where the writes can be told apart."""
    seen = broken(case("trickle"))

    assert {len(chunk) for chunk in seen.chunks[:-1]} == {10}


def test_a_head_comes_line_by_line():
    clock = ManualClock()
    lines = lines_of(whole("openai.chat").head)
    with server_reference.scripted(ANSWER | fault("slow_headers"), clock=clock) as server:
        client = RawClient(server)
        client.send(request())
        came = []
        for line in lines:
            came.append(client.until(line))
            wait_until(lambda: clock.sleeping)
            clock.advance(1)
        client.socket.close()

    assert came == lines


# Before a request, and under TLS.


@pytest.mark.parametrize(
    ("name", "end"), [("close_on_accept", None), ("reset_on_accept", ConnectionResetError)]
)
def test_a_connection_ends_as_soon_as_it_is_accepted(name, end):
    with server_reference.scripted(ANSWER, greetings={1: greeting(name)}) as server:
        assert _end_of_connecting(server) is end

        second = RawClient(server)
        second.send(request())
        assert second.until(END).endswith(END)
        second.socket.close()


def _end_of_connecting(server):
    """What a new connection ends with; a reset can come before `connect` returns."""
    try:
        client = RawClient(server)
    except ConnectionResetError as error:
        return type(error)
    ended = outcome(client)
    client.socket.close()
    return ended


def test_a_reply_comes_before_the_request():
    early = greeting("early_response")
    with server_reference.scripted(ANSWER, greetings={1: early}) as server:
        client = RawClient(server)
        sent = client.rest()
        client.send(request())  # its other half is still open
        client.socket.close()

    assert sent.startswith(b"HTTP/1.1 413 Early\r\n")
    assert sent.endswith(b'"type":"invalid_request_error"}}')


def test_a_server_takes_its_time_to_read():
    clock = ManualClock()
    slow = {1: greeting("slow_accept", seconds=3)}
    with server_reference.scripted(ANSWER, clock=clock, greetings=slow) as server:
        client = RawClient(server)
        client.send(request())
        wait_until(lambda: clock.sleeping)
        assert server.counters().requests == 0
        clock.advance(3)
        assert client.until(END).endswith(END)
        client.socket.close()


def test_a_silent_server_reads_nothing():
    with server_reference.scripted(ANSWER, greetings={1: greeting("silent_accept")}) as server:
        client, other = RawClient(server), RawClient(server)
        client.send(request())
        other.send(request())
        other.until(END)  # the server had time to answer
        client.socket.setblocking(False)

        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        client.socket.close()
        other.socket.close()


def test_tls_ends_without_saying_so():
    cut, clock = ANSWER | fault("no_close_notify"), ManualClock()
    with server_reference.scripted(cut, tls=True, clock=clock) as server:
        context = ssl.create_default_context(cafile=server.ca_file)
        client = RawClient(server)
        client.socket = context.wrap_socket(
            client.socket, server_hostname="localhost", suppress_ragged_eofs=False
        )
        client.send(request())
        sent = b""
        with client.socket, pytest.raises(ssl.SSLEOFError):
            while piece := client.socket.recv(65536):
                sent += piece

    assert sent.endswith(b"connection: close\r\n\r\n" + b"".join(whole("openai.chat").chunks[:3]))


# By chance.


def test_the_same_seed_breaks_the_same_requests():
    def broken_ones(seed):
        chance = faults_at({"refused_status": {"rate": 0.3, "status": 529}}, seed=seed)
        with server_reference.scripted(ANSWER, faults=[chance]) as server:
            client, statuses = RawClient(server), []
            for _ in range(30):
                client.send(request(stream=False))
                statuses.append(client.until(b"}")[9:12])
            client.socket.close()
        return [number for number, status in enumerate(statuses) if status == b"529"]

    first = broken_ones(7)

    assert first == broken_ones(7)
    assert first != broken_ones(8)
    assert 3 <= len(first) <= 18


def test_a_missing_rule_is_told_whatever_chance_says():
    chance = faults_at({"no_reply": 1.0})
    rules = [rule("x", path="/elsewhere")]
    with server_reference.scripted(rules, faults=[chance]) as server:
        client = RawClient(server)
        client.send(request(stream=False))

        assert client.until(b"}").startswith(b"HTTP/1.1 400")
        client.socket.close()


def test_an_unfit_fault_is_told_in_the_reply():
    seen = play(Answer("x") | fault("reset_after"), stream=False)

    assert seen.head.startswith(b"HTTP/1.1 500")
    assert b"match it with stream=True" in seen.chunks[0]


TESTED = {one.name for one in CONNECTIONS} | {
    "close_on_accept",
    "early_response",
    "informational_1xx",
    "no_close_notify",
    "reset_on_accept",
    "silent_accept",
    "slow_accept",
}
