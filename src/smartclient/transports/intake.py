"""What has come of a reply's body: held back, handed on, and told to the taps. No I/O."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any

from msgspec import Struct

from .. import _observers
from .._call import Attempt, Reply
from .._clock import Clock
from .._errors import SmartClientError
from .._flow import Outcome, Tap
from ..wire import Delta, Failure, Part, failure_by_status
from ..wire.reader import EventReader
from .codings import CodingError, codings_of

__all__ = ["MAX_ERROR_BODY", "MAX_PEEK", "MAX_WATCHED_BODY", "Chunk", "Intake"]


MAX_PEEK = 1 << 20
MAX_ERROR_BODY = 64 << 10
MAX_WATCHED_BODY = 16 << 20  # of a JSON reply: past that, its usage stays unknown


class Chunk(Struct, frozen=True):
    """Some bytes of a body, as they came, and what they said.

    Attributes:
        data: With the content-encoding still on.
        decoded: Without; `None` under an encoding that we do not know.
        at: When they came, in monotonic seconds.
        has_content: Some of the parts carry output of the model.
        broken: Why these bytes, and all that follow, could not be read any more.
    """

    data: bytes
    decoded: bytes | None
    parts: list[Part]
    comments: list[str]
    at: float
    has_content: bool = False
    broken: SmartClientError | None = None


_NONE_FINISHED: frozenset[int] = frozenset()  # shared: an empty one takes 216 bytes


class _Told:
    """What a body has said up to some point."""

    __slots__ = ("failure", "finished", "has_stopped", "has_tokens", "is_terminal")

    def __init__(self) -> None:
        self.has_tokens = self.is_terminal = self.has_stopped = False
        self.failure: Failure | None = None
        self.finished = _NONE_FINISHED

    def note_all(self, parts: list[Part], attempt: Attempt | None = None) -> int:
        """How many of `parts` carry output; `attempt` keeps what they tell of its costs."""
        noted, num_tokens = None, 0
        for part in parts:
            if part.delta is not noted:  # most events say the same as the one before
                noted = part.delta
                self.note(noted)
                if attempt is not None and (noted.usage is not None or noted.changes_input):
                    _account(attempt, noted)
            if noted.has_tokens:
                num_tokens += 1
        return num_tokens

    def note(self, delta: Delta) -> None:
        self.has_tokens = self.has_tokens or delta.has_tokens
        self.is_terminal = self.is_terminal or delta.is_terminal
        self.failure = self.failure or delta.failure
        if delta.finished:
            self.finished = self.finished.union(delta.finished)
        elif delta.finish is not None:
            self.has_stopped = True

    def is_whole(self, num_choices: float) -> bool:
        return self.is_terminal or len(self.finished) >= num_choices


def _account(attempt: Attempt, delta: Delta) -> None:
    """Keep what `delta` tells of tokens, and of how they were served."""
    told, served = delta.usage, delta.served
    if told is not None:
        attempt.usage = told if attempt.usage is None else attempt.usage.updated(told)
    if served is not None:
        attempt.served = served.over(attempt.served)
    if delta.changes_input:
        attempt.changes_input = True
        attempt.has_fees = attempt.has_fees or delta.has_fees


class Intake:
    """Takes in one body.

    Attributes:
        held: Taken in, not yet handed on.
        is_events: It is an event stream in a format, and an encoding, that we know.
        broken: Why the events could not be read any further.
        value: The typed value of a complete reply that is no stream, where it was read.
        unknown: Why the body's encoding cannot be undone.
    """

    __slots__ = (
        "_adapter",
        "_attempt",
        "_clock",
        "_codings",
        "_delivered",
        "_is_drained",
        "_is_undecodable",
        "_num_choices",
        "_num_held",
        "_num_tokens",
        "_reader",
        "_status",
        "_taken",
        "_taps",
        "_watched",
        "broken",
        "held",
        "is_events",
        "unknown",
        "value",
    )

    def __init__(self, reply: Reply, clock: Clock, attempt: Attempt) -> None:
        # Not the reply itself: it holds the body, and a cycle would keep a dropped one alive.
        self._status, self._taps, self._clock = reply.status, reply.taps, clock
        self._attempt, self._num_tokens = attempt, 0
        self._adapter = reply.call.adapter
        media_type = (reply.headers.get("content-type") or "").partition(";")[0].strip().lower()
        is_success = 200 <= reply.status < 300
        self.unknown: str | None = None
        try:
            self._codings = codings_of(", ".join(reply.headers.all("content-encoding")))
        except CodingError as error:
            self._codings, self.unknown = None, str(error)
        is_known = self._adapter is not None and self.unknown is None
        self.is_events = is_known and is_success and media_type == _EVENTS
        self._reader = None
        if self._adapter is not None and self.is_events:
            most = reply.call.max_event_bytes
            self._reader = EventReader(self._adapter, max_event_bytes=most)
        is_watched = is_known and is_success and not self.is_events
        self._watched = bytearray() if is_watched else None
        self.held: deque[Chunk] | tuple[()] = ()  # an empty deque takes more than all the rest
        self._num_held = 0
        self.broken: SmartClientError | None = None
        self.value: Any = None
        self._is_undecodable = False
        self._is_drained = True  # nothing of what has come is left to be decoded
        self._num_choices = _num_choices(reply) if self.is_events else 0
        self._taken, self._delivered = _Told(), _Told()

    def take(self, data: bytes) -> Chunk:
        """Take in what came from the connection; there may be more in it, see `rest`."""
        return self._chunk(data, self._decode(data))

    def rest(self) -> Chunk | None:
        """What is left to be decoded of the bytes taken in last; `None`: nothing."""
        if self._codings is None or self._is_drained:
            return None
        decoded = self._decode(b"")
        return self._chunk(b"", decoded) if decoded or self.broken else None

    def _chunk(self, data: bytes, decoded: bytes | None) -> Chunk:
        parts: list[Part] = []
        comments: list[str] = []
        if self._reader is not None and decoded:
            try:
                parts = self._reader.feed(decoded)
            except SmartClientError as error:
                # Without its traceback, which holds our caller and so the body.
                self.broken, self._reader = error.with_traceback(None), None
            else:
                comments = self._reader.take_comments()
        num_tokens = self._taken.note_all(parts, self._attempt)
        self._num_tokens += num_tokens
        at = self._clock.monotonic()
        return Chunk(data, decoded, parts, comments, at, num_tokens > 0, self.broken)

    def hold(self, chunk: Chunk) -> None:
        """Keep `chunk` for whoever reads next."""
        if isinstance(self.held, tuple):
            self.held = deque()
        self.held.append(chunk)
        self._num_held += max(len(chunk.data), len(chunk.decoded or b""))

    def take_held(self) -> Chunk:
        """The chunk that was held first."""
        assert isinstance(self.held, deque)
        chunk = self.held.popleft()
        if not self.held:
            self.held = ()
        return chunk

    @property
    def is_decided(self) -> bool:
        """Whether it is known that the stream is a success, or is not."""
        told = self._taken
        if self._reader is None or told.has_tokens or told.is_terminal:
            return True
        return told.failure is not None or self._num_held > MAX_PEEK

    @property
    def failure(self) -> Failure | None:
        """The stream's error, when it came before any content."""
        return None if self._taken.has_tokens else self._taken.failure

    @property
    def reported(self) -> Failure | None:
        """The error that what was handed on reports."""
        return self._delivered.failure

    @property
    def terminal(self) -> bool:
        """Whether the terminal event has come."""
        return self._taken.is_terminal

    @property
    def is_answered(self) -> bool:
        """Whether nothing of the answer is missed by whoever leaves now."""
        # Of an error reply, what was not read is no reason to open another connection.
        return self._taken.is_terminal or self._status >= 300

    def end(self) -> None:
        """Take in that nothing more comes."""
        if self._reader is not None and not self._taken.is_whole(self._num_choices):
            self._taken.failure = self._taken.failure or _ENDED_EARLY

    @property
    def is_cut_short(self) -> bool:
        """Whether an end now would be too early, by what was handed on."""
        told = self._delivered
        return told.failure is None and not told.is_whole(self._num_choices)

    @property
    def wants_error_body(self) -> bool:
        return self._num_held < MAX_ERROR_BODY

    @property
    def beginning(self) -> bytes:
        """What is held, decoded; at most 64 KiB of it."""
        return b"".join(chunk.decoded or b"" for chunk in self.held)[:MAX_ERROR_BODY]

    def no_stream(self) -> Failure:
        """Read what is held as the body of a success that should have been a stream."""
        told = self._adapter.whole(self.beginning).delta.failure if self._adapter else None
        failure = told or Failure(kind="malformed", message="it is no stream")
        self._delivered.failure = failure
        return failure

    def error_reply(self) -> Failure:
        """Read what is held as the body of an error reply."""
        if self._adapter is None:
            failure = failure_by_status(self._status)
        else:
            failure = self._adapter.failure(self._status, self.beginning)
        self._delivered.failure = failure  # however much of it the reader then takes
        return failure

    def deliver(self, chunk: Chunk) -> None:
        """Tell the taps what is now handed to the reader."""
        self._tell(chunk.parts, chunk.at)
        told = self._delivered
        if chunk.broken is not None and not told.is_terminal:
            told.failure = told.failure or Failure(kind="malformed")
        for comment in chunk.comments:
            for tap in list(self._taps):
                try:
                    tap.comment(comment)
                except Exception:  # an observer must not break the stream
                    self._silence(tap)
        if self._watched is not None and chunk.decoded and self._taps:
            self._watched += chunk.decoded
            if len(self._watched) > MAX_WATCHED_BODY:
                self._watched = None

    def deliver_end(self) -> None:
        """Tell the taps what a complete body that is no stream says."""
        if not self.is_events and self._codings is not None and not self._codings.is_whole:
            self.broken = SmartClientError(
                "the reply ended before the end that its content-encoding marks, so it may be "
                "cut; does a proxy change it on its way?"
            )
            self._delivered.failure = Failure(kind="malformed")
            return
        if self._watched is not None and self._adapter is not None:
            whole = self._adapter.whole(bytes(self._watched))
            self.value = whole.value
            _account(self._attempt, whole.delta)
            self._tell([whole], self._clock.monotonic())

    def settle(self, outcome: Outcome) -> None:
        """Mark usage that might have grown as the least that was used."""
        usage, told = self._attempt.usage, self._taken
        if usage is None:
            return
        is_last = told.has_stopped or told.is_whole(self._num_choices)
        if not usage.is_final or not (is_last or outcome.kind == "complete"):
            self._attempt.usage = usage.at_least(self._num_tokens)

    def ended(self) -> Outcome:
        """How a body that came to its end ended."""
        at = self._clock.monotonic()
        failure = self._delivered.failure
        if failure is not None:
            return Outcome("failed", at, failure.type or failure.kind)
        if self.is_cut_short:
            return Outcome("incomplete", at)
        return Outcome("complete", at)

    def take_taps(self) -> list[Tap]:
        """Those that are to be told how it ended; they see nothing more."""
        taps = list(self._taps)
        self._taps.clear()
        return taps

    def left(self) -> Outcome:
        """How a body ended whose reader went away."""
        if self._delivered.is_terminal or self._delivered.failure is not None:
            return self.ended()
        return Outcome("cut", self._clock.monotonic())

    def _tell(self, parts: list[Part], at: float) -> None:
        self._delivered.note_all(parts)
        for tap in list(self._taps):
            try:
                for part in parts:
                    tap.feed(part.delta, at)
            except Exception:  # an observer must not break the stream
                self._silence(tap)

    def _silence(self, tap: Tap) -> None:
        self._taps.remove(tap)
        _observers.failed("a tap failed and is silenced for this call", tap)

    def _decode(self, data: bytes) -> bytes | None:
        if self._codings is None:
            return None if self.unknown is not None or self._is_undecodable else data
        try:
            if data:
                self._codings.put(data)
            decoded = self._codings.take()
        except CodingError as error:
            self._codings = self._reader = None
            self._is_undecodable = True
            self.broken = SmartClientError(
                f"the reply is not in the content-encoding that it names: {error}; "
                "does a proxy change it on its way?"
            )
            return None
        self._is_drained = not decoded
        return decoded


_EVENTS = "text/event-stream"
_ENDED_EARLY = Failure(
    kind="incomplete", message="the stream ended before any content", is_transient=True
)


def _num_choices(reply: Reply) -> float:
    """How many choices must finish to make a stream whole without its terminal event."""
    adapter, payload = reply.call.adapter, reply.call.payload or {}
    if adapter is None or not adapter.finish_is_end:
        return inf
    number = payload.get("n")
    return number if isinstance(number, int) else 1
