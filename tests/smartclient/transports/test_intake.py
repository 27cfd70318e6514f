"""What has come of a body: held back, handed on, told to the taps."""

from __future__ import annotations

import gzip
import logging
import zlib

import pytest

from smartclient._call import Attempt, Origin, Timeline
from smartclient._flow import Outcome, sleep
from smartclient.testing import ManualClock, a_call, a_reply
from smartclient.transports import intake as module
from smartclient.transports.intake import Intake
from tests.smartclient.fakes import CHAT, DONE, MESSAGE, OVERLOAD, START, STOP, a_chunk, text

PADDING = b": keep alive\n\n"


class Notes:
    """A tap that keeps what it sees; it raises where it is told to."""

    def __init__(self, *, raises: str = "") -> None:
        self.deltas, self.times, self.comments = [], [], []
        self.outcomes, self._raises = [], raises

    def feed(self, delta, at):
        if self._raises == "feed":
            raise RuntimeError("a tap's own fault")
        self.deltas.append(delta)
        self.times.append(at)

    def comment(self, text):
        if self._raises == "comment":
            raise RuntimeError("a tap's own fault")
        self.comments.append(text)

    def after(self, outcome):
        self.outcomes.append(outcome)
        yield from sleep(0.0)


def an_intake(
    *taps, status: int = 200, path: str = "/v1/messages", clock=None, attempt=None, **headers
):
    headers = {"content_type": "text/event-stream"} | headers
    reply = a_reply(status, call=a_call(path=path), **headers)
    reply.taps.extend(taps)
    attempt = attempt or reply.call.trace.begin(reply.call.origin, at=0.0)
    return Intake(reply, clock or ManualClock(0.0), attempt)


def taken(intake, *pieces):
    """Take in and hand on `pieces`; the chunks."""
    chunks = [intake.take(piece) for piece in pieces]
    for chunk in chunks:
        intake.deliver(chunk)
    return chunks


@pytest.mark.parametrize(
    ("status", "path", "content_type", "is_events"),
    [
        pytest.param(200, "/v1/messages", "text/event-stream", True, id="events"),
        pytest.param(200, "/v1/messages", "Text/Event-Stream; charset=utf-8", True, id="case"),
        pytest.param(200, "/v1/messages", "application/json", False, id="json"),
        pytest.param(200, "/v1/files", "text/event-stream", False, id="unknown-format"),
        pytest.param(529, "/v1/messages", "text/event-stream", False, id="error"),
        pytest.param(301, "/v1/messages", "text/event-stream", False, id="redirect"),
    ],
)
def test_only_a_success_in_a_known_format_is_read_as_events(status, path, content_type, is_events):
    intake = an_intake(status=status, path=path, content_type=content_type)

    assert intake.is_events is is_events
    assert intake.is_decided is not is_events


def test_a_reply_without_a_content_type_is_no_stream():
    attempt = Attempt(1, Origin("http", "a", 1), 0.0, Timeline())

    assert not Intake(a_reply(), ManualClock(), attempt).is_events


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        pytest.param("gzip", gzip.compress, id="gzip"),
        pytest.param("X-GZIP", gzip.compress, id="old-name"),
        pytest.param("deflate", zlib.compress, id="deflate"),
        pytest.param("deflate, gzip", lambda d: gzip.compress(zlib.compress(d)), id="both"),
        pytest.param("identity, ", bytes, id="identity"),
    ],
)
def test_bytes_pass_untouched_and_are_read_decoded(encoding, encode):
    notes = Notes()
    intake = an_intake(notes, content_encoding=encoding)
    body = encode(START + text("Paris") + STOP)

    chunks = taken(intake, *(body[at : at + 7] for at in range(0, len(body), 7)))

    assert b"".join(chunk.data for chunk in chunks) == body
    assert b"".join(chunk.decoded for chunk in chunks) == START + text("Paris") + STOP
    assert sum(delta.has_tokens for delta in notes.deltas) == 1
    assert notes.deltas[-1].is_terminal


@pytest.mark.parametrize(
    "encoding",
    ["rot13", "gzip, rot13", ", ".join(["gzip"] * 6)],
    ids=["unknown", "one", "six"],
)
def test_an_encoding_that_we_do_not_read_passes_unread(encoding):
    intake = an_intake(Notes(), content_encoding=encoding)

    assert intake.is_decided  # a peek that waits for events would hold the whole stream back
    (chunk,) = taken(intake, b"\x8b\x02")

    assert intake.ended().kind == "complete"
    assert (chunk.data, chunk.decoded, chunk.parts) == (b"\x8b\x02", None, [])


def test_broken_compression_passes_untouched_and_is_told():
    intake = an_intake(content_encoding="gzip")

    first, second = taken(intake, b"no gzip", b"at all")

    assert (first.data, first.decoded, second.decoded) == (b"no gzip", None, None)
    assert "not in the content-encoding" in str(intake.broken)
    assert intake.is_decided
    assert intake.ended() == Outcome("failed", 0.0, "malformed")


@pytest.mark.parametrize(
    "decisive",
    [
        pytest.param(START + text("Paris"), id="content"),
        pytest.param(START + STOP, id="end-without-content"),
        pytest.param(START + OVERLOAD, id="error"),
    ],
)
def test_a_stream_is_decided_by_its_first_content_error_or_end(decisive):
    intake = an_intake()

    intake.hold(intake.take(START))
    assert not intake.is_decided
    intake.hold(intake.take(decisive.removeprefix(START)))

    assert intake.is_decided


def test_a_mebibyte_before_any_content_decides():
    intake = an_intake()

    intake.hold(intake.take(PADDING * (module.MAX_PEEK // len(PADDING))))
    assert not intake.is_decided
    intake.hold(intake.take(PADDING * 2))

    assert intake.is_decided
    assert intake.failure is None


def test_an_error_before_content_is_the_streams_failure():
    intake = an_intake()

    intake.take(START + OVERLOAD)

    assert (intake.failure.kind, intake.failure.is_transient) == ("overloaded", True)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([START + text("Pa"), OVERLOAD], id="later"),
        pytest.param([START + text("Pa") + OVERLOAD], id="in-one-chunk"),
    ],
)
def test_an_error_after_content_is_not(pieces):
    """Sending it again would repeat tokens."""
    intake = an_intake()

    for piece in pieces:
        intake.take(piece)

    assert intake.failure is None


def test_nothing_counts_after_the_terminal_event():
    notes = Notes()
    intake = an_intake(notes)

    taken(intake, START + text("Paris") + STOP + OVERLOAD, text("more"))

    assert intake.ended().kind == "complete"
    assert notes.deltas[-1].is_terminal


def test_an_error_and_the_terminal_event_in_one_chunk_is_a_failure():
    intake = an_intake(Notes(), path="/v1/chat/completions")

    taken(intake, a_chunk("Pa"), b'data: {"error": {"message": "busy", "code": 503}}\n\n' + DONE)

    assert intake.ended() == Outcome("failed", 0.0, "overloaded")
    assert intake.terminal


def test_taps_are_told_what_is_handed_on_and_when_it_came():
    notes, clock = Notes(), ManualClock(0.0)
    intake = an_intake(notes, clock=clock)

    clock.advance(1.0)
    chunk = intake.take(text("Paris") + b": ping\n\n")
    clock.advance(5.0)
    assert notes.deltas == []
    intake.deliver(chunk)

    assert (notes.times, notes.comments) == ([1.0], ["ping"])


@pytest.mark.parametrize("method", ["feed", "comment"])
def test_a_tap_that_raises_is_silenced_and_the_others_go_on(caplog, method):
    bad, good = Notes(raises=method), Notes()
    intake = an_intake(bad, good)

    with caplog.at_level(logging.ERROR, "smartclient"):
        taken(intake, text("a") + PADDING, text("b") + PADDING)

    assert (len(good.deltas), len(good.comments)) == (2, 2)
    assert intake.take_taps() == [good]
    assert caplog.text.count("silenced") == 1


def test_taken_taps_see_nothing_more():
    notes = Notes()
    intake = an_intake(notes)

    assert intake.take_taps() == [notes]
    taken(intake, text("late"))

    assert notes.deltas == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/messages", MESSAGE, id="anthropic"),
        pytest.param("/v1/chat/completions", CHAT, id="openai"),
    ],
)
def test_a_whole_reply_is_told_at_its_end(path, body):
    notes = Notes()
    intake = an_intake(notes, path=path, content_type="application/json")

    taken(intake, body[:10], body[10:])
    assert notes.deltas == []
    intake.deliver_end()

    usage = notes.deltas[0].usage
    assert (usage.uncached, usage.output) == (9, 2)
    assert intake.ended() == Outcome("complete", 0.0)


def test_a_whole_reply_is_kept_only_where_somebody_watches():
    intake = an_intake(content_type="application/json")

    taken(intake, MESSAGE)
    intake.deliver_end()

    assert not intake._watched


def test_a_reply_too_long_to_be_watched_has_no_usage():
    notes = Notes()
    intake = an_intake(notes, content_type="application/json")

    taken(intake, b" " * module.MAX_WATCHED_BODY, MESSAGE, b" ")
    intake.deliver_end()

    assert notes.deltas == []


@pytest.mark.parametrize("pieces", [[b"<html>"], []], ids=["page", "nothing"])
def test_a_success_that_is_not_its_format_is_a_failure(pieces):
    intake = an_intake(Notes(), content_type="application/json")

    taken(intake, *pieces)
    intake.deliver_end()

    assert intake.ended() == Outcome("failed", 0.0, "malformed")


def test_a_whole_reply_in_an_encoding_that_we_do_not_read_is_not_judged():
    intake = an_intake(Notes(), content_type="application/json", content_encoding="rot13")

    taken(intake, b"\x1b\x0b")
    intake.deliver_end()

    assert intake.ended() == Outcome("complete", 0.0)


@pytest.mark.parametrize(
    ("pieces", "ended", "left"),
    [
        pytest.param([START + text("a") + STOP], "complete", "complete", id="terminal"),
        pytest.param([START + text("a")], "incomplete", "cut", id="no-terminal"),
        pytest.param([START + OVERLOAD], "failed", "failed", id="error"),
    ],
)
def test_how_a_body_ended(pieces, ended, left):
    intake = an_intake()

    taken(intake, *pieces)

    assert (intake.ended().kind, intake.left().kind) == (ended, left)


def test_what_is_held_but_not_handed_on_has_not_been_seen():
    intake = an_intake()

    intake.hold(intake.take(START + text("a") + STOP))

    assert intake.left().kind == "cut"


def test_an_error_reply_is_read_from_what_is_held():
    intake = an_intake(status=529, content_type="application/json", content_encoding="gzip")
    body = gzip.compress(b'{"error": {"type": "overloaded_error", "message": "busy"}}')

    for piece in (body[:9], body[9:]):
        intake.hold(intake.take(piece))
    failure = intake.error_reply()

    assert (failure.kind, failure.type, failure.message) == (
        "overloaded",
        "overloaded_error",
        "busy",
    )
    assert intake.ended() == intake.left() == Outcome("failed", 0.0, "overloaded_error")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"content_encoding": "rot13"}, id="unreadable"),
        pytest.param({"path": "/v1/files"}, id="unknown-format"),
    ],
)
def test_an_error_reply_that_cannot_be_read_goes_by_its_status(changes):
    intake = an_intake(status=503, **changes)

    intake.hold(intake.take(b"\x00\x01"))

    assert (intake.error_reply().kind, intake.error_reply().is_transient) == ("overloaded", True)


def test_an_error_reply_is_wanted_up_to_its_bound():
    intake = an_intake(status=500)

    intake.hold(intake.take(b"x" * (module.MAX_ERROR_BODY - 1)))
    assert intake.wants_error_body
    intake.hold(intake.take(b"x"))

    assert not intake.wants_error_body


def test_an_event_too_large_is_told_and_the_rest_passes_unread():
    notes = Notes()
    intake = an_intake(notes)

    chunks = taken(intake, b"data: " + b"x" * (40 << 20), text("more"))

    assert "larger than" in str(intake.broken)
    assert intake.is_decided
    assert [chunk.parts for chunk in chunks] == [[], []]
    assert intake.left() == Outcome("failed", 0.0, "malformed")


def test_what_came_before_the_break_is_whole():
    intake = an_intake()

    chunks = taken(intake, text("Pa"), b"data: " + b"x" * (40 << 20))

    assert [chunk.broken for chunk in chunks] == [None, intake.broken]


def test_garbage_after_the_terminal_event_changes_nothing():
    intake = an_intake(content_encoding="deflate")
    packed = zlib.compressobj()
    body = packed.compress(START + STOP) + packed.flush(zlib.Z_SYNC_FLUSH)

    taken(intake, body, b"\xff\xff garbage")

    assert intake.broken is not None
    assert intake.ended().kind == "complete"
