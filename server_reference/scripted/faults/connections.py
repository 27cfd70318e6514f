"""Faults of HTTP/1.1 and its connections: closed, silent, badly framed.

Source: RFC 9112, sections 6, 7 and 9; RFC 9110, section 15.2; RFC 8446, section 6.1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ..ops import (
    Fin,
    HalfClose,
    Head,
    NoCloseNotify,
    Op,
    Pause,
    Raw,
    Reset,
    Script,
    Wait,
)
from ..request import Received
from .parameters import Count, Number, Seconds, Status
from .pieces import Reply
from .presets import Break, preset

__all__ = [
    "bad_chunk_size",
    "bad_status_line",
    "bytes_after_end",
    "close_after_request",
    "close_on_accept",
    "connection_close",
    "early_response",
    "endless_headers",
    "informational_1xx",
    "keep_alive_header",
    "length_and_chunks",
    "never_answers",
    "no_close_notify",
    "no_reply",
    "reset_before_reply",
    "reset_on_accept",
    "silent_accept",
    "slow_accept",
    "stale_keepalive",
]

_STALE = "httpx#327, #96, #1478, #2983, PR#3515"
_UNANSWERED = "On a reused connection without a byte of reply: send once more on a fresh one."
_MOST_CONNECTIONS = 10_000
_OPENING = "toxiproxy's down and timeout; httpx#327"
_FRAMING = "RFC 9112, section 7.1; httpcore and h11's own tests"
_PROTOCOL = "An error that names the protocol; the connection is never used again."


@preset("CONN", _STALE, right=_UNANSWERED, needs="http/1.1")
def stale_keepalive(how: Literal["fin", "reset"] = "fin") -> Break:
    """The server answers the first request of each connection, and closes on the next one
    unanswered.

    Args:
        how: Whether it closes in order, or resets.
    """
    used: dict[int, None] = {}
    close: list[Op] = [Fin() if how == "fin" else Reset()]

    def stale(reply: Reply, received: Received) -> Script:
        if received.connection in used:
            return close
        used[received.connection] = None
        if len(used) > _MOST_CONNECTIONS:
            del used[next(iter(used))]
        return reply.script()

    return stale


@preset("CONN", _STALE, right=_UNANSWERED)
def close_after_request(idle: Seconds = 0.0) -> Break:
    """The server closes the connection after its reply without having said so.

    Args:
        idle: Seconds that it waits first; a request that comes in them is not answered.
    """

    def closed(reply: Reply, received: Received) -> Script:
        wait = [Wait(idle)] if idle else []
        return reply.script(after=[*reply.after, *wait, Fin()])

    return closed


@preset(
    "CONN",
    "pipecat PR#307; httpx#2983",
    right="Let go of the connection before the server does; a handshake per call is as wrong.",
    needs="http/1.1",
)
def keep_alive_header(timeout: Count = 4) -> Break:
    """The reply says how long an idle connection stays open.

    Args:
        timeout: Seconds.
    """

    def noted(reply: Reply, received: Received) -> Script:
        fields = (*reply.head.fields, ("keep-alive", f"timeout={timeout}"))
        return reply.script(head=replace(reply.head, fields=fields))

    return noted


@preset(
    "CONN",
    "RFC 9112, section 9.6; httpx#2983",
    right="Use another connection for the next call, without an error.",
    needs="http/1.1",
)
def connection_close() -> Break:
    """The reply says `connection: close`, and the server closes."""

    def noted(reply: Reply, received: Received) -> Script:
        fields = (*reply.head.fields, ("connection", "close"))
        return reply.script(head=replace(reply.head, fields=fields), after=[*reply.after, Fin()])

    return noted


@preset(
    "RETRY",
    "openai-python 3.57 and anthropic-sdk-python 2.14, run: neither sends an idempotency key",
    right="It may have been paid for: the same key for every attempt, and the number of attempts "
    "told.",
)
def no_reply() -> Break:
    """The server reads the whole request, and closes without a byte of reply."""
    return lambda reply, received: [Fin()]


@preset(
    "RETRY",
    "openai-python 3.57 and anthropic-sdk-python 2.14, run: neither sends an idempotency key",
    right="It may have been paid for: the same key for every attempt, and the number of attempts "
    "told.",
)
def reset_before_reply() -> Break:
    """The server reads the whole request, and resets the connection without a byte of reply."""
    return lambda reply, received: [Reset()]


@preset(
    "CONN",
    "openai-python#3269, PR#3270; python-genai#2705; claude-code#82822; goai#163",
    right="A limit on the whole call ends it, and keep-alive probes tell a dead connection.",
)
def never_answers() -> Break:
    """The server reads the request and stays silent, as if a router had forgotten the
    connection."""
    return lambda reply, received: [Pause()]


@preset("CONN", _FRAMING, right=_PROTOCOL, needs="http/1.1")
def bad_status_line(line: str = "HTTP/1.1 twohundred OK") -> Break:
    """The reply begins with a line that is no status line.

    Args:
        line: The line.
    """
    raw = Raw(f"{line}\r\ncontent-length: 0\r\n\r\n".encode())
    return lambda reply, received: [raw, Fin()]


@preset("CONN", _FRAMING, right=_PROTOCOL, needs="http/1.1")
def bad_chunk_size(size: str = "zz", chunks: Count = 1) -> Break:
    """The length of a chunk is no number.

    Args:
        size: What stands there.
        chunks: Chunks in good order before it.
    """
    bad: list[Op] = [Raw(f"{size}\r\nnonsense\r\n".encode()), Fin()]

    def broken(reply: Reply, received: Received) -> Script:
        return reply.script(reply.pieces[:chunks], head=reply.chunked(), after=bad)

    return broken


@preset(
    "CONN",
    _FRAMING,
    right="Refuse it, or go by the chunks and close; never by the length.",
    needs="http/1.1",
)
def length_and_chunks(length: Count = 5) -> Break:
    """The head has a length, and says that the body comes in chunks too.

    Args:
        length: The length.
    """

    def both(reply: Reply, received: Received) -> Script:
        fields = (*reply.head.fields, ("content-length", str(length)))
        return reply.script(head=replace(reply.chunked(), fields=fields))

    return both


@preset(
    "CONN",
    _FRAMING,
    right="Fail at a limit on the head, by name; memory stays bounded.",
    needs="http/1.1",
)
def endless_headers(fields: Number = 10_000) -> Break:
    """The head goes on and on, and is cut.

    Args:
        fields: Header fields that come.
    """
    lines = b"".join(b"x-filler-%d: %s\r\n" % (n, b"a" * 90) for n in range(100))
    rest = b"".join(b"x-filler-%d: %s\r\n" % (n, b"a" * 90) for n in range(fields % 100))

    def endless(reply: Reply, received: Received) -> Script:
        start = Raw(f"HTTP/1.1 {reply.head.status} OK\r\n".encode())
        return [start, *[Raw(lines)] * (fields // 100), *([Raw(rest)] if rest else []), Fin()]

    return endless


@preset(
    "CONN",
    _FRAMING,
    right="They answer nothing: the connection is never used again.",
    needs="http/1.1",
)
def bytes_after_end(data: str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") -> Break:
    """Bytes that no request asked for come after the reply.

    Args:
        data: The bytes, in UTF-8.
    """
    extra = Raw(data.encode())
    return lambda reply, received: reply.script(after=[*reply.after, extra])


@preset(
    "CONN",
    "RFC 9110, section 15.2; RFC 8297",
    right="Pass them over; the reply is the first one that is final.",
)
def informational_1xx(status: Literal[100, 102, 103] = 103, times: Number = 2) -> Break:
    """Informational replies come before the final one.

    Args:
        status: 100, 102 or 103.
        times: How many.
    """
    fields = (("link", "</style.css>; rel=preload"),) if status == 103 else ()
    early = [Head(status, fields)] * times
    return lambda reply, received: [*early, *reply.script()]


@preset(
    "CONN",
    "RFC 8446, section 6.1",
    right="An end that TLS did not tell is a cut, unless the body was whole.",
    needs=("stream", "tls"),
)
def no_close_notify(events: Count = 3) -> Break:
    """The connection ends under TLS without a close_notify, as an attacker could end it.

    Args:
        events: Events before it.
    """

    def cut(reply: Reply, received: Received) -> Script:
        head = replace(reply.head, framing="close", length=None)
        return reply.script(reply.pieces[:events], head=head, after=[NoCloseNotify()])

    return cut


@preset(
    "CONN",
    "RFC 9110, section 10.1.1; httpcore#1022",
    right="Stop sending, read the reply and raise it; never a broken pipe.",
    needs="greeting",
)
def early_response(status: Status = 413) -> Break:
    """A whole reply comes before the request has been read.

    Args:
        status: Its HTTP status.
    """
    body = b'{"error":{"message":"too large","type":"invalid_request_error"}}'
    head = f"HTTP/1.1 {status} Early\r\ncontent-type: application/json\r\n"
    end = f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return lambda reply, received: [Raw((head + end).encode() + body), HalfClose()]


@preset(
    "CONN",
    _OPENING,
    right="Connecting failed before anything was sent: always safe to send again.",
    needs="greeting",
)
def reset_on_accept() -> Break:
    """The connection is reset as soon as it is accepted."""
    return lambda reply, received: [Reset()]


@preset("CONN", _OPENING, right="Not a byte was read: safe to send again.", needs="greeting")
def close_on_accept() -> Break:
    """The connection is closed as soon as it is accepted."""
    return lambda reply, received: [Fin()]


@preset(
    "CONN",
    _OPENING,
    right="Under TLS the limit on connecting covers the handshake.",
    needs="greeting",
)
def slow_accept(seconds: Seconds = 1.0) -> Break:
    """The server takes its time before it reads, TLS included.

    Args:
        seconds: How long.
    """
    return lambda reply, received: [Wait(seconds)]


@preset(
    "CONN",
    _OPENING,
    right="The limit on connecting or on the first byte ends it.",
    needs="greeting",
)
def silent_accept() -> Break:
    """The connection is accepted, and nothing is ever read or sent."""
    return lambda reply, received: [Pause()]
