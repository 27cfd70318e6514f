"""A call and its reply, as policies see them, and the record of what happened in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from .wire import Served, Usage
from .wire.encode import encode
from .wire.sse import MAX_EVENT_BYTES

if TYPE_CHECKING:
    from ._flow import Tap
    from ._scope import Scope
    from .report import CacheReport, Later
    from .tokens import TokenCount
    from .wire import Adapter

__all__ = [
    "Attempt",
    "Call",
    "Deadline",
    "Headers",
    "Origin",
    "Reply",
    "Span",
    "Timeline",
    "Timeout",
    "Trace",
]


class Origin(Struct, frozen=True):
    """Scheme, host and port: whom a connection speaks to."""

    scheme: Literal["http", "https"]
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @classmethod
    def of(cls, url: str) -> tuple[Origin, str]:
        """Split `url` into its origin and the target that goes into the request line.

        Raises:
            ValueError: No http or https URL, or without a host.
        """
        parts, port = _parted(url)
        if parts is None:
            raise ValueError(
                "the URL's host or port cannot be read; a port is a number up to 65535, and an "
                "IPv6 address stands in brackets"
            )
        scheme = parts.scheme.lower()
        if scheme not in ("http", "https") or not parts.hostname:
            # A long one is no scheme, but may be a key in the wrong place.
            begins = f"begins with {scheme}:" if 0 < len(scheme) <= 16 else "has no scheme"
            raise ValueError(
                f"a URL must begin with http:// or https:// and name a host; this one {begins}"
            )
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        port = (443 if scheme == "https" else 80) if port is None else port
        secure: Literal["http", "https"] = "https" if scheme == "https" else "http"
        return cls(secure, parts.hostname, port), target


def _parted(url: str) -> tuple[SplitResult | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError:  # it shows the URL, which may hold a key: not even a context keeps it
        return None, None


class Headers:
    """Header fields in their order; names compare without case.

    Args:
        fields: Pairs of name and value, or a mapping.

    Attributes:
        written: What a connection made of them the last time; `None` before.
    """

    __slots__ = ("_first", "fields", "written")

    fields: tuple[tuple[str, str], ...]

    def __init__(self, fields: Iterable[tuple[str, str]] | Mapping[str, str] = ()) -> None:
        if not isinstance(fields, list) and isinstance(fields, Mapping):
            fields = fields.items()
        self.fields = tuple(fields)
        self.written: Any = None
        self._first: dict[str, str] | None = None  # by lower-case name, once one is asked for

    def get(self, name: str) -> str | None:
        """The value of the first field called `name`, or `None`."""
        first = self._first
        if first is None:
            first = self._first = {key.lower(): value for key, value in reversed(self.fields)}
        return first.get(name.lower())

    def all(self, name: str) -> list[str]:
        """The values of every field called `name`."""
        name = name.lower()
        return [value for key, value in self.fields if key.lower() == name]

    def replaced(self, **changes: str | None) -> Headers:
        """A copy with these fields set (`_` stands for `-`); `None` removes one."""
        new = {name.replace("_", "-").lower(): value for name, value in changes.items()}
        kept = [(key, value) for key, value in self.fields if key.lower() not in new]
        return Headers([*kept, *((key, value) for key, value in new.items() if value is not None)])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def __repr__(self) -> str:
        # Names only, and those that are: values may be keys, and so may what is no name.
        names = (key if key.isascii() and key.isprintable() else "?" for key, _ in self.fields)
        return f"Headers({', '.join(names)})"


class Timeout(Struct, frozen=True, kw_only=True):
    """Seconds that each stage of one exchange may take; `None` waits for ever.

    Args:
        connect: Address look-up, TCP and TLS together.
        pool: Waiting for a connection to become free.
        write: One write to the socket.
        read: One silence of the connection while the reply is awaited or read.
        first_event: From the request until a stream's first event with content.
        idle: Waiting for a stream's next event with content; pings and comments are none.
        total: The whole call: every attempt, the waits between them, and the body.
    """

    connect: float | None = 5.0
    pool: float | None = 10.0
    write: float | None = 60.0
    read: float | None = 600.0
    first_event: float | None = 600.0
    idle: float | None = 300.0
    total: float | None = None


class Deadline(Struct, frozen=True):
    """Until when something must have happened, and whose limit that is.

    Attributes:
        at: In the seconds of `time.monotonic`, whatever the client's clock says.
    """

    at: float
    limit: Literal["first_event", "idle", "total"]
    seconds: float


class Span(Struct, frozen=True):
    """A stretch of time, in monotonic seconds."""

    start: float
    end: float

    @property
    def duration(self) -> float:
        return self.end - self.start


class Timeline(Struct):
    """When each stage of one exchange was, in monotonic seconds; `None`: it was not.

    Attributes:
        deadline: Bounds every wait of the exchange, beside the limit of its stage; set by
            whoever knows what the bytes mean.
        carrier: The socket that carried it, and the TLS on it or `None`; to look at only.
    """

    pool: Span | None = None
    dns: Span | None = None
    tcp: Span | None = None
    tls: Span | None = None
    send: Span | None = None
    first_byte: float | None = None
    last_byte: float | None = None
    reused: bool = False
    protocol: str | None = None
    deadline: Deadline | None = None
    carrier: tuple[Any, Any] | None = None

    def within(self, timeout: float | None) -> tuple[float | None, Deadline | None]:
        """How long to wait at most, and the deadline if it is what bounds the wait."""
        deadline = self.deadline
        if deadline is None:
            return timeout, None
        left = max(0.0, deadline.at - monotonic())
        return (timeout, None) if timeout is not None and timeout < left else (left, deadline)


class Attempt(Struct):
    """One try of a call.

    Attributes:
        number: Counted from 1.
        status: `None` when no reply came.
        error: The `kind` of the `ExchangeError`, when one was raised; `incomplete` for a
            stream that ended before any content.
        usage: Tokens that its reply has told of so far, whoever reads it; once it has ended,
            the least that was used where that is all there is.
        model: Which its request asks for.
        asked: How its request asks to be served.
        served: How it was served, where its reply has said so.
        changes_input: The provider changed the input itself: see `Delta.changes_input`.
        has_fees: It cost more than its tokens: see `Delta.has_fees`.
    """

    number: int
    origin: Origin
    started: float
    timeline: Timeline
    status: int | None = None
    error: str | None = None
    maybe_processed: bool = False
    ended: float | None = None
    usage: Usage | None = None
    model: str | None = None
    asked: Served | None = None
    served: Served | None = None
    changes_input: bool = False
    has_fees: bool = False

    @property
    def billed_as(self) -> Served | None:
        """How it was served by its reply, and where that says nothing, as its request asked."""
        return self.asked if self.served is None else self.served.over(self.asked)

    def end(self, at: float) -> None:
        """It is over; whoever keeps its record keeps no socket."""
        self.ended, self.timeline.carrier = at, None


class Trace(Struct):
    """The record of one call, filled in by the transport as it goes.

    Attributes:
        started: When the call began, in monotonic seconds.
        prepared: When the request was ready to be sent for the first time.
        backoffs: Waits between attempts.
        cache: What became of the prompt cache, where somebody looked.
        hints: What was decided about the prompt cache, for all attempts; the policy's own.
        counted: The input tokens that somebody counted before the call was sent: what it then
            uses corrects later counts.
        budget_left: Of each budget of the call, once it is settled.
        downgraded: What a budget changed in the request, so that it fits.
        report: The `CallReport`, once the body has ended, for whoever asks for it.
    """

    started: float
    prepared: float | None = None
    attempts: list[Attempt] = msgspec.field(default_factory=list)
    backoffs: tuple[Span, ...] = ()
    cache: CacheReport | None = None
    hints: Any = None
    counted: TokenCount | None = None
    budget_left: Mapping[str, Mapping[str, float]] | None = None
    downgraded: str | None = None
    report: Later | None = None

    def begin(self, origin: Origin, *, at: float) -> Attempt:
        """Open the record of the next attempt."""
        attempt = Attempt(len(self.attempts) + 1, origin, at, Timeline())
        self.attempts.append(attempt)
        return attempt


class Call(Struct, frozen=True, kw_only=True):
    """One request to a provider, complete and immutable.

    Args:
        target: Path and query, as in the request line.
        headers: Everything but `host`, `content-length` and `transfer-encoding`, which
            the connection adds.
        body: Bytes, or an iterable of bytes (async under async) that can be read once.
        payload: The body's JSON, where an adapter recognised the call.
        adapter: What understands this call's wire format; `None` lets it pass untouched.
        max_retries: The caller's own limit for this call; `None` leaves it to the policy.
        max_event_bytes: The largest event of a stream that is read.
        scope: The `smartclient.scope` blocks that it was made in.
        is_renewable: A 401 is about a credential of which the next attempt has a fresh one.
        is_prepared: An SDK prepares each attempt anew, and signs what it then holds.
    """

    method: str
    origin: Origin
    target: str
    headers: Headers
    trace: Trace
    body: Any = b""
    payload: Mapping[str, Any] | None = None
    adapter: Adapter | None = None
    timeout: Timeout = Timeout()
    max_retries: int | None = None
    max_event_bytes: int = MAX_EVENT_BYTES
    scope: Scope | None = None
    is_renewable: bool = False
    is_prepared: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether the caller asked for server-sent events."""
        return self.payload is not None and self.payload.get("stream") is True

    @property
    def model(self) -> str | None:
        model = self.payload.get("model") if self.payload is not None else None
        return model if isinstance(model, str) else None

    @property
    def is_repeatable(self) -> bool:
        """Whether the body can be sent more than once."""
        return isinstance(self.body, bytes)

    def with_payload(self, payload: Mapping[str, Any]) -> Call:
        """A copy that sends `payload` instead."""
        return msgspec.structs.replace(self, payload=payload, body=encode(payload))


class Reply(Struct, eq=False):
    """The head of a provider's answer; its body is read by whoever gets the reply.

    Attributes:
        handle: The transport's. A policy passes it on.
        taps: What watches the body as it flows.
    """

    status: int
    headers: Headers
    call: Call
    handle: Any = None
    reason: str = ""
    protocol: str = "HTTP/1.1"
    taps: list[Tap] = msgspec.field(default_factory=list)

    def cut(self) -> None:
        """Drop the body at once; never blocks, never raises."""
        if self.handle is not None:
            self.handle.cut()
