"""Which requests are tries of the same call: what the client says, or what its requests show.

Two equal requests are one call when the second says so (the SDKs' `x-stainless-retry-count`, an
equal idempotency key), when the first one failed, or when the test says so by `server.call()`.
Equal requests that succeeded, or that run side by side, are calls of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypeVar

from .entries import Entry
from .request import Received

__all__ = ["CallRecord", "Calls"]

_Key = TypeVar("_Key")


@dataclass(slots=True)
class CallRecord:
    """The tries of one call so far.

    Attributes:
        number: Of the call, from 1.
        attempts: Its tries.
        asked_at: When each came, on the server's clock, the newest 100.
        last: The newest one.
    """

    number: int
    attempts: int = 0
    asked_at: list[float] = field(default_factory=list)
    last: Entry | None = None

    @property
    def gaps(self) -> tuple[float, ...]:
        """Seconds between its tries."""
        pairs = zip(self.asked_at, self.asked_at[1:], strict=False)
        return tuple(later - earlier for earlier, later in pairs)

    @property
    def has_failed(self) -> bool:
        """Whether the newest try is over and brought no whole answer."""
        return self.last is not None and self.last.how is not None and not self.last.is_success


class Calls:
    """Groups requests by call.

    Args:
        most: How many calls are remembered, the newest ones.
    """

    def __init__(self, *, most: int = 10_000) -> None:
        self._num = 0
        self._most = most
        self._by_key: OrderedDict[tuple[object, ...], CallRecord] = OrderedDict()
        self._by_place: OrderedDict[tuple[object, ...], CallRecord] = OrderedDict()
        self.records: OrderedDict[int, CallRecord] = OrderedDict()

    def place(self, received: Received, scope: int | None) -> CallRecord:
        """The call that a request belongs to; it is not counted yet."""
        found = self._by_key.get((scope, received.call_key))
        place = (scope, received.method, received.path)
        if found is None and not received.body and received.method == "POST":
            # A body that was a generator is empty at the second try; see `body_resent_empty`.
            found = self._by_place.get(place)
            found = found if found is not None and found.has_failed else None
        if found is None or not _continues(found, received, scope):
            self._num += 1
            found = CallRecord(self._num)
        _keep(self._by_key, (scope, received.call_key), found, self._most)
        _keep(self._by_place, place, found, self._most)
        _keep(self.records, found.number, found, self._most)
        return found

    def forget(self, entry: Entry) -> None:
        """Let go of an entry that the journal no longer keeps."""
        record = self.records.get(entry.call)
        if record is not None and record.last is entry:
            record.last = None


def _continues(record: CallRecord, received: Received, scope: int | None) -> bool:
    retries = received.header("x-stainless-retry-count")
    if scope is not None or (retries or "0") != "0":
        return True
    key = received.header("idempotency-key")
    if key is not None and record.last is not None:
        return record.last.header("idempotency-key") == key
    return retries is None and record.has_failed


def _keep(kept: OrderedDict[_Key, CallRecord], key: _Key, record: CallRecord, most: int) -> None:
    kept[key] = record
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
