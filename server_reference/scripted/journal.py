"""The journal: every request and what was answered, bounded, and without secrets.

Bodies and replies are capped, entries beyond a number or a size make room from the oldest, and
nothing that `credentials` knows to be secret is kept.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from .. import credentials
from .attempts import Calls
from .clock import Clock
from .entries import ConnectionEntry, Entry
from .hooks import Connection, How
from .live import Live
from .ops import Body, Op
from .request import Received

__all__ = ["Journal"]

_MARGIN = 16 * 1024
_SHORTEST_KEY = 8
_KINDS = {"sk-ant-": "Anthropic", "sk-proj-": "OpenAI", "AIza": "Google"}


class Journal:
    """Keeps entries; written on the server's thread, read from any.

    Args:
        clock: The server's.
        max_entries: Of requests, and of connections; older ones make room.
        max_bytes: Of all kept bodies together, requests' and replies'.
        max_body_bytes: Of one kept body.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        max_entries: int = 10_000,
        max_bytes: int = 64 * 2**20,
        max_body_bytes: int = 64 * 2**10,
    ) -> None:
        for name, value in (("max_entries", max_entries), ("max_body_bytes", max_body_bytes)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        self._clock = clock
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._max_body_bytes = max_body_bytes
        self._salt = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque()
        self._connections: deque[ConnectionEntry] = deque(maxlen=max_entries)
        self._open: dict[int, ConnectionEntry] = {}
        self._live: dict[int, Live] = {}
        self._num_bytes = 0
        self.calls = Calls(most=self._max_entries)
        self.num_forgotten = 0

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self, *, after: int = 0) -> list[Entry]:
        """The requests that are kept, oldest first.

        Args:
            after: Leave out those up to this number.
        """
        with self._lock:
            return [
                self._shown(entry) if entry.how is None else entry
                for entry in self._entries
                if entry.number > after
            ]

    def connections(self) -> list[ConnectionEntry]:
        """The connections that are kept, oldest first."""
        with self._lock:
            return [replace(one) for one in self._connections]

    def attempts(self) -> tuple[dict[int, int], dict[int, tuple[float, ...]]]:
        """By number of the call: how often it was tried, and the seconds between the tries."""
        with self._lock:
            records = self.calls.records.values()
            tried = {record.number: record.attempts for record in records}
            return tried, {one.number: one.gaps for one in records if one.attempts > 1}

    @property
    def bytes_in_flight(self) -> int:
        """What was sent of replies that are not over."""
        with self._lock:
            return sum(live.sent_bytes for live in self._live.values())

    @property
    def num_in_flight(self) -> int:
        """Replies that are not over."""
        return len(self._live)

    def reset(self) -> None:
        """Forget what is over; open connections and replies under way stay known."""
        with self._lock:
            self._entries = deque(one for one in self._entries if one.how is None)
            self._connections = deque(self._open.values(), maxlen=self._max_entries)
            self._num_bytes = sum(len(one.body) for one in self._entries)
            self.calls = Calls(most=self._max_entries)
            self.num_forgotten = 0

    def is_same_credential(self, text: str, credential: str) -> bool:
        """Whether `text` is the key that made this fingerprint."""
        return self._fingerprint([text]) == credential

    # Told by the server, on its thread.

    def opened(self, connection: Connection) -> None:
        entry = ConnectionEntry(
            connection.number,
            connection.opened_at,
            time.monotonic(),
            connection.is_tls,
            connection.protocol,
        )
        with self._lock:
            self._connections.append(entry)
            self._open[entry.number] = entry

    def closed(self, connection: Connection, reason: str) -> None:
        with self._lock:
            entry = self._open.pop(connection.number, None)
            if entry is not None:
                entry.protocol = connection.protocol
                entry.closed_at = self._clock.now()
                entry.closed_real = time.monotonic()
                entry.reason = reason

    def received(self, received: Received, scope: int | None) -> Entry:
        """Note a request."""
        hidden = credentials.secrets_in(received.headers, received.target)
        entry = self._entry(received, scope, hidden)
        with self._lock:
            record = self.calls.place(entry)
            record.attempts += 1
            record.asked_at = [*record.asked_at[-99:], entry.received_at]
            record.last = entry
            entry.call, entry.attempt = record.number, record.attempts
            self._entries.append(entry)
            self._live[entry.number] = Live(entry, hidden, self._max_body_bytes)
            self._note_client(entry)
            self._make_room(len(entry.body))
        return entry

    def wrote(self, received: Received, op: Op, num_bytes: int) -> None:
        live = self._live.get(received.number)
        if live is None:
            return
        live.sent_bytes += num_bytes
        if type(op) is Body and live.num_writes:  # most often, and there are many of them
            live.body(op.data)
        else:
            live.wrote(op, self._clock)

    def ended(self, received: Received, how: How) -> int:
        """Note a reply's end; returns how many bytes it put on the wire."""
        with self._lock:
            live = self._live.pop(received.number, None)
            if live is None:
                return 0
            entry = live.entry
            live.fill(entry)
            entry.ended_at = self._clock.now()
            entry.ended_real = time.monotonic()
            entry.how = how
            if self._entries and entry.number >= self._entries[0].number:  # still kept
                self._make_room(len(entry.reply))
            return entry.sent_bytes

    def broke(self, received: Received, error: BaseException) -> None:
        live = self._live.get(received.number)
        if live is not None:
            said = f"{type(error).__name__}: {error}"
            live.entry.error = credentials.redact_text(said, live.hidden)

    def _entry(self, received: Received, scope: int | None, hidden: Sequence[str]) -> Entry:
        most = self._max_body_bytes
        body = credentials.redact_body(received.body[: most + _MARGIN], hidden)[:most]
        target = credentials.redact_target(received.target)
        keys = credentials.offered_keys(dict(received.headers))
        return Entry(
            number=received.number,
            call=0,
            attempt=0,
            scope=scope,
            connection=received.connection,
            protocol=received.protocol,
            stream_id=received.stream_id,
            method=received.method,
            target=target,
            headers=credentials.redact_headers(received.headers, hidden),
            body=body,
            body_bytes=len(received.body),
            api=received.api,
            model=received.model,
            is_stream=received.is_stream,
            key=received.call_key,
            received_at=received.received_at,
            asked_real=time.monotonic(),
            credential=self._fingerprint(keys),
            misplaced=tuple(_misplaced(received, target, keys)),
        )

    def _fingerprint(self, keys: Sequence[str]) -> str:
        """Salted, so that it says nothing outside of this journal."""
        if not keys:
            return ""
        text = "\0".join(sorted(set(keys))).encode("utf-8", "surrogateescape")
        return hashlib.blake2b(text, key=self._salt, digest_size=8).hexdigest()

    def _note_client(self, entry: Entry) -> None:
        connection = self._open.get(entry.connection)
        if connection is not None:
            connection.num_requests += 1
            connection.protocol = entry.protocol
            connection.client = connection.client or entry.client

    def _make_room(self, num_bytes: int) -> None:
        self._num_bytes += num_bytes
        while len(self._entries) > self._max_entries or (
            self._num_bytes > self._max_bytes and len(self._entries) > 1
        ):
            oldest = self._entries.popleft()
            self._num_bytes -= len(oldest.body) + len(oldest.reply)
            self.calls.forget(oldest)
            self.num_forgotten += 1

    def _shown(self, entry: Entry) -> Entry:
        shown = replace(entry)
        if (live := self._live.get(entry.number)) is not None:
            live.fill(shown)
        return shown


def _misplaced(received: Received, target: str, keys: Sequence[str]) -> list[str]:
    """Where keys came that do not belong there, as ends of the sentence "a key came …"."""
    found = []
    if credentials.REDACTED in target:
        found.append("in the URL, where proxies and logs keep it")
    own = [key.encode("utf-8", "surrogateescape") for key in keys if len(key) >= _SHORTEST_KEY]
    fields = [name for name in received.fields if credentials.is_secret_field(name)]
    if fields or any(key in received.body for key in own):
        found.append("in the body, where the provider's logs keep it")
    # Google speaks Chat Completions too, under a path of its own.
    if received.api is not None and not received.path.startswith("/v1beta/openai/"):
        vendor = "Anthropic" if received.api == "anthropic.messages" else "OpenAI"
        for key in keys:
            kinds = [kind for start, kind in _KINDS.items() if key.startswith(start)]
            found += [f"that is {kind}'s, to {vendor}'s API" for kind in kinds if kind != vendor]
    return found
