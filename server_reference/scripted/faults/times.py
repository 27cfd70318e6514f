"""Faults of time: silence, trickles, and signs of life that are no progress."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..ops import Op, Pause, Raw, Script, Wait
from ..request import Received
from .parameters import Count, Number, Seconds
from .pieces import Piece, Reply, as_raw
from .presets import Break, preset

__all__ = [
    "abandonable_stream",
    "pings_only",
    "silence_before_first_event",
    "slow_events",
    "slow_headers",
    "stall_after",
    "trickle",
]

_TOTAL = "openai-python#2599; langchain#36056"
_PINGS = "opencode-claude-auth PR#139; openai-python 3.57 and anthropic-sdk-python 2.14, run"
_PING = Piece(b": ping\n\n")


@preset(
    "TIME",
    _TOTAL,
    right="A limit on the whole call beside the one between two reads.",
)
def trickle(bytes_per_second: Number = 100, at_once: Number = 10) -> Break:
    """The body comes a few bytes at a time, each in time for a read timeout.

    Args:
        bytes_per_second: How fast.
        at_once: Bytes in a write.
    """

    def trickled(reply: Reply, received: Received) -> Script:
        body, wait = reply.body, at_once / bytes_per_second
        parts = [body[at : at + at_once] for at in range(0, len(body), at_once)]
        return reply.script(Piece(part, wait) for part in parts)

    return trickled


@preset(
    "TIME",
    _PINGS,
    right="Only content is progress: a limit on the time without any ends the call.",
    needs="stream",
)
def pings_only(after: Count = 1, interval: Seconds = 1.0, pings: Count = 100) -> Break:
    """Nothing but comments comes after some events, and after the comments nothing.

    Args:
        after: Events before the first comment.
        interval: Seconds between two comments.
        pings: How many come.
    """
    alive = [replace(_PING, wait=interval)] * pings
    return lambda reply, received: reply.script([*reply.pieces[:after], *alive], after=[Pause()])


@preset(
    "TIME",
    _PINGS,
    right="A limit on the time between two events ends the call; the part that came is kept.",
    needs="stream",
)
def stall_after(events: Count = 3) -> Break:
    """Nothing comes after some events, and the connection stays open.

    Args:
        events: How many.
    """
    return lambda reply, received: reply.script(reply.pieces[:events], after=[Pause()])


@preset(
    "TIME",
    "livekit/agents#5508; OmniRoute#355; cline PR#10632; hybridclaw PR#1321",
    right="Wait: the limit on the first event is much longer than the one between two.",
    needs="stream",
)
def silence_before_first_event(seconds: Seconds = 30.0) -> Break:
    """A healthy stream is silent for long before its first event, as while a model thinks.

    Args:
        seconds: How long.
    """

    def silent(reply: Reply, received: Received) -> Script:
        first, *rest = reply.pieces
        return reply.script([replace(first, wait=first.wait + seconds), *rest])

    return silent


@preset(
    "TIME",
    _TOTAL,
    right="A limit on the whole call covers the head too.",
    needs="http/1.1",
)
def slow_headers(seconds: Seconds = 1.0) -> Break:
    """The head comes line by line.

    Args:
        seconds: How long before each line but the first.
    """

    def slow(reply: Reply, received: Received) -> Iterator[Op]:
        ops = as_raw(reply.script())
        for number, line in enumerate(_lines(ops)):
            if number:
                yield Wait(seconds)
            yield Raw(line)
        yield from ops[_head_at(ops) + 1 :]

    return lambda reply, received: list(slow(reply, received))


@preset(
    "TIME",
    "livekit/agents#5508; cline PR#10632",
    right="Go on: each event comes within its limit.",
    needs="stream",
)
def slow_events(seconds: Seconds = 1.0) -> Break:
    """Some time passes before each event.

    Args:
        seconds: How long.
    """
    return lambda reply, received: reply.script(
        replace(piece, wait=piece.wait + seconds) for piece in reply.pieces
    )


@preset(
    "TIME",
    "litellm#17364; httpcore#943",
    right="A client that gives up closes or resets the stream, so that the server stops.",
    needs="stream",
)
def abandonable_stream(seconds: Seconds = 0.05, repeats: Number = 1000) -> Break:
    """The answer's events are followed by comments for long, so that who leaves can be seen to
    leave.

    Args:
        seconds: Time between two comments.
        repeats: How many come before the terminal event.
    """

    def long(reply: Reply, received: Received) -> Script:
        *begun, last = reply.pieces
        return reply.script([*begun, *[replace(_PING, wait=seconds)] * repeats, last])

    return long


def _head_at(ops: list[Op]) -> int:
    return next(number for number, op in enumerate(ops) if isinstance(op, Raw))


def _lines(ops: list[Op]) -> list[bytes]:
    head = ops[_head_at(ops)]
    assert isinstance(head, Raw)
    return [line + b"\r\n" for line in head.data.split(b"\r\n")[:-1]]
