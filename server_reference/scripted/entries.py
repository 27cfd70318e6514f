"""What the journal holds of a request, its reply and its connection, without secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from .hooks import How
from .request import Api

__all__ = ["ConnectionEntry", "Entry"]

_SUCCESS = range(200, 400)


@dataclass(slots=True)
class Entry:
    """A request and what was answered; times are Unix seconds on the server's clock.

    Attributes:
        number: Number of the request on this server, from 1.
        call: Number of the call it belongs to, from 1; its tries share it.
        attempt: Which try of that call it is, from 1.
        scope: Number of the `with server.call()` it came in; `None` outside of any.
        connection: Number of the connection that carried it.
        target: Path and query, redacted like `headers`, `body`, `reply_headers` and `reply`.
        body: Its first bytes; `body_bytes` is its whole length.
        key: Names the call's content: equal for the same method, target and body.
        credential: Tells one set of keys from another, and nothing else about them.
        misplaced: Where keys came that belong elsewhere.
        status: `None` while nothing was answered.
        reply: The first bytes of the reply's body; `reply_bytes` is its whole length, and
            `declared_bytes` what its content-length says.
        sent_bytes: Bytes on the wire, framing included.
        num_writes: Writes of the body.
        head_at: When the head of the reply left.
        first_body_at: When the first bytes of its body left.
        has_content: Whether text, thinking or tool calls of the model were in it, for streams.
        has_terminal: Whether the event was in it that ends a stream of its format.
        how: How the reply ended; `None` while it is under way.
        error: What a rule, a provider or a fault raised in place of an answer.
        asked_real, head_real, ended_real: The same moments on the machine's monotonic clock,
            for clients that wait in real time while the server's clock is a test's.
    """

    number: int
    call: int
    attempt: int
    scope: int | None
    connection: int
    protocol: str
    stream_id: int | None
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    body_bytes: int
    api: Api | None
    model: str | None
    is_stream: bool
    key: str
    received_at: float
    asked_real: float
    credential: str = ""
    misplaced: tuple[str, ...] = ()
    status: int | None = None
    reply_headers: tuple[tuple[str, str], ...] = ()
    reply: bytes = b""
    reply_bytes: int = 0
    declared_bytes: int | None = None
    sent_bytes: int = 0
    num_writes: int = 0
    head_at: float | None = None
    head_real: float | None = None
    first_body_at: float | None = None
    has_content: bool = False
    has_terminal: bool = False
    ended_at: float | None = None
    ended_real: float | None = None
    how: How | None = None
    error: str | None = None

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        """The request's body as JSON, redacted; `None` when it is none, or too long to be kept."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    @property
    def client(self) -> tuple[str | None, str]:
        """What tells the client's pool from another's: its agent and its keys."""
        return self.header("user-agent"), self.credential

    @property
    def is_event_stream(self) -> bool:
        """Whether the reply is server-sent events."""
        return (self.reply_header("content-type") or "").lower().startswith("text/event-stream")

    @property
    def is_whole(self) -> bool:
        """Whether all of the reply was sent, as its own length or framing tells it."""
        if self.declared_bytes is not None:
            return self.reply_bytes >= self.declared_bytes
        return self.how == "complete"

    @property
    def is_success(self) -> bool:
        """Whether all of a reply that is no error was sent, and it is over."""
        return self.how is not None and self.is_whole and self.status in _SUCCESS

    def header(self, name: str) -> str | None:
        """The first value of a request header, its name in small letters."""
        return next((value for key, value in self.headers if key == name), None)

    def reply_header(self, name: str) -> str | None:
        """The first value of a reply's header, its name in small letters."""
        return next((value for key, value in self.reply_headers if key == name), None)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: bodies as text, headers as pairs, without the monotonic clock's times."""
        fields = {
            name: getattr(self, name) for name in self.__slots__ if not name.endswith("_real")
        }
        texts = {name: fields[name].decode("utf-8", "replace") for name in ("body", "reply")}
        pairs = {name: list(map(list, fields[name])) for name in ("headers", "reply_headers")}
        return fields | texts | pairs | {"misplaced": list(self.misplaced)}


@dataclass(slots=True)
class ConnectionEntry:
    """A connection.

    Attributes:
        client: Agent and keys of its first request; `None` before it.
        num_requests: How many came over it.
        closed_at: `None` while it is open.
        reason: Who closed it: `client`, `client reset`, `server`, `server reset`, …
    """

    number: int
    opened_at: float
    opened_real: float
    is_tls: bool
    protocol: str
    client: tuple[str | None, str] | None = None
    num_requests: int = 0
    closed_at: float | None = None
    closed_real: float | None = None
    reason: str | None = None

    @property
    def was_closed_by_client(self) -> bool:
        return self.reason is not None and self.reason.startswith("client")

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the monotonic clock's times."""
        names = [name for name in self.__slots__ if not name.endswith("_real")]
        return {name: getattr(self, name) for name in names if name != "client"}
