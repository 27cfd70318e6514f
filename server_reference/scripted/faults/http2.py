"""Faults of HTTP/2: reset streams, closing connections, limits and windows.

Source: RFC 9113, sections 5.1.2 (concurrency), 5.2 (flow control), 6.4 (RST_STREAM), 6.5
(SETTINGS), 6.8 (GOAWAY), 8.7 (what was not processed).
"""

from __future__ import annotations

from ..ops import Body, End, Fin, GoAway, Pause, ResetStream, Script, Settings, Starve
from ..request import Received
from .parameters import Count, Number, Size
from .pieces import Piece, Reply
from .presets import Break, preset

__all__ = [
    "empty_data_frames",
    "goaway",
    "goaway_graceful",
    "goaway_then_close",
    "low_max_streams",
    "refused_stream",
    "rst_stream",
    "shrunk_window",
    "starved_window",
    "window_filling_body",
]

_AWAY = "httpcore#730, #46, #679, PR#1054"
_UNPROCESSED = (
    "Streams above the last one were not processed: send them again, whatever the method."
)
_UPLOADS = "httpcore2 PR#1163, PR#935"


@preset(
    "H2",
    "RFC 9113, section 6.4; httpcore#943, PR#944",
    right="That stream fails and the connection goes on; the part that came is kept.",
    needs="h2",
)
def rst_stream(code: Count = 8, after: Count = 1) -> Break:
    """The stream is reset in the middle of its reply.

    Args:
        code: The error code: 2 is INTERNAL_ERROR, 8 CANCEL, 11 ENHANCE_YOUR_CALM.
        after: Events before it.
    """
    reset = [ResetStream(code)]
    return lambda reply, received: reply.script(reply.pieces[:after], after=reset)


@preset(
    "H2",
    "RFC 9113, section 8.7; httpcore2 PR#1012",
    right="Not processed: send it again, whatever the method.",
    needs="h2",
)
def refused_stream() -> Break:
    """The stream is refused before it was processed (REFUSED_STREAM)."""
    return lambda reply, received: [ResetStream(7)]


@preset("H2", _AWAY, right=_UNPROCESSED, needs="h2")
def goaway(last: Count = 0, code: Count = 0) -> Break:
    """The server takes no more streams (GOAWAY) and names the last one that it processed.

    Args:
        last: Number of that stream; 0 is none.
        code: The error code; 11 is ENHANCE_YOUR_CALM.
    """
    return lambda reply, received: [GoAway(last, code), Pause()]


@preset("H2", _AWAY, right=_UNPROCESSED, needs="h2")
def goaway_then_close(last: Count = 0, code: Count = 0) -> Break:
    """The server takes no more streams (GOAWAY), and closes the connection at once.

    Args:
        last: Number of the last stream that it processed; 0 is none.
        code: The error code.
    """
    return lambda reply, received: [GoAway(last, code), Fin()]


@preset(
    "H2",
    _AWAY,
    right="What has begun ends in peace on this connection; new calls take another one.",
    needs="h2",
)
def goaway_graceful() -> Break:
    """The server takes no more streams (GOAWAY), and finishes this one."""
    return lambda reply, received: [GoAway(), *reply.script()]


@preset(
    "H2",
    "httpcore#943, PR#944, #1022, PR#1098; httpx#1414; bolna PR#770; E2B PR#1590",
    right="Wait for a stream to end, or open another connection; a cancelled stream is reset, so "
    "that it no longer counts.",
    needs="h2",
)
def low_max_streams(streams: Count = 1) -> Break:
    """The server lowers the number of streams that may be open at once.

    Args:
        streams: How many may be.
    """
    lower = Settings((("MAX_CONCURRENT_STREAMS", streams),))
    return lambda reply, received: [lower, *reply.script()]


@preset(
    "H2",
    _UPLOADS,
    right="An upload that cannot go on waits for credit within its time limit; others go on.",
    needs="h2",
)
def starved_window() -> Break:
    """The server grants no more window from here on: the next large upload on it stalls."""
    return lambda reply, received: [Starve(), *reply.script()]


@preset(
    "H2",
    _UPLOADS,
    right="A window may become negative: wait until it is positive again.",
    needs="h2",
)
def shrunk_window(size: Count = 0) -> Break:
    """The server makes the initial window of all streams smaller while they are open.

    Args:
        size: Bytes.
    """
    smaller = Settings((("INITIAL_WINDOW_SIZE", size),))
    return lambda reply, received: [smaller, *reply.script()]


@preset(
    "H2",
    "h2's default window of 65,535 bytes",
    right="Give the connection its window back whoever reads slowly; other streams go on.",
    needs="h2",
)
def window_filling_body(mib: Size = 1.0, frame_kib: Number = 16) -> Break:
    """The body is larger than the connection's window: unread, it stops every other stream.

    Args:
        mib: Its length in MiB.
        frame_kib: Length of each write in KiB.
    """
    frame = Body(b" " * (frame_kib * 1024))
    frames = [frame] * max(1, int(mib * 1024 / frame_kib))

    def filled(reply: Reply, received: Received) -> Script:
        if reply.is_stream:
            comment = Piece(b":" + b" " * (frame_kib * 1024 - 3) + b"\n\n")
            return reply.script([*[comment] * len(frames), *reply.pieces])
        return [*reply.before, reply.chunked(), *frames, Body(reply.body), End()]

    return filled


@preset(
    "H2",
    "httpx#2068, #2998",
    right="A frame without data is no end and no event.",
    needs="h2",
)
def empty_data_frames() -> Break:
    """A DATA frame without data comes before each one with data."""

    def doubled(reply: Reply, received: Received) -> Script:
        empty = Piece(b"")
        return reply.script([one for piece in reply.pieces for one in (empty, piece)])

    return doubled
