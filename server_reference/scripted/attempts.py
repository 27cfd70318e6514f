"""Which requests are tries of the same call: what the client says, or what its requests show.

Two equal requests are one call when the second says so (the SDKs' `x-stainless-retry-count`, an
equal idempotency key), when the first one failed, or when the test says so by `server.call()`.
Equal requests that succeeded, or that run side by side, are calls of their own; a retry goes on
with the one of them that has been tried as often as it says, and that was free to be sent again
first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from .asked import asked_wait
from .entries import Entry

__all__ = ["CallRecord", "Calls"]

_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")
_MOST_EQUAL = 256


@dataclass(slots=True, eq=False)
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

    @property
    def has_succeeded(self) -> bool:
        """Whether the newest try brought a whole answer."""
        return self.last is not None and self.last.is_success

    @property
    def free_at(self) -> float:
        """From when on it may be tried again, as far as its last reply said."""
        if self.last is None:
            return 0.0
        asked = asked_wait(self.last)
        since = self.last.head_at or self.last.ended_at or self.last.received_at
        return since + (0.0 if asked is None else asked[0])


class Calls:
    """Groups requests by call.

    Args:
        most: How many calls are remembered, the newest ones.
    """

    def __init__(self, *, most: int = 10_000) -> None:
        self._num = 0
        self._most = most
        self._by_key: OrderedDict[tuple[object, ...], list[CallRecord]] = OrderedDict()
        self._by_place: OrderedDict[tuple[object, ...], CallRecord] = OrderedDict()
        self.records: OrderedDict[int, CallRecord] = OrderedDict()

    def place(self, entry: Entry) -> CallRecord:
        """The call that a request belongs to; it is not counted yet."""
        equal = self._by_key.get((entry.scope, entry.key), [])
        found = _continued(equal, entry)
        place = (entry.scope, entry.method, entry.path)
        if not equal and not entry.body_bytes and entry.method == "POST":
            # A body that was a generator is empty at the second try; see `body_resent_empty`.
            found = self._by_place.get(place)
            found = found if found is not None and found.has_failed else None
        if found is None:
            self._num += 1
            found = CallRecord(self._num)
        _keep(self._by_key, (entry.scope, entry.key), _with(equal, found), self._most)
        _keep(self._by_place, place, found, self._most)
        _keep(self.records, found.number, found, self._most)
        return found

    def forget(self, entry: Entry) -> None:
        """Let go of an entry that the journal no longer keeps."""
        record = self.records.get(entry.call)
        if record is not None and record.last is entry:
            record.last = None


def _continued(equal: list[CallRecord], entry: Entry) -> CallRecord | None:
    """The call that a request goes on with, of those with equal requests, oldest first."""
    if not equal or entry.scope is not None:
        return equal[-1] if equal else None
    retries = entry.header("x-stainless-retry-count")
    if retries is not None and retries != "0":
        own = [one for one in equal if one.last is not None and one.last.client == entry.client]
        as_often = [one for one in own or equal if str(one.attempts) == retries]
        return _next_free(as_often) or _next_free(own or equal)
    key = entry.header("idempotency-key")
    if key is not None:
        same = (one for one in equal if one.last and one.last.header("idempotency-key") == key)
        return next(same, None)
    return None if retries is not None else _first_failed(equal, entry.credential)


def _next_free(records: list[CallRecord]) -> CallRecord | None:
    """One that failed; else one under way, whose client has given up; else the newest."""
    failed = [one for one in records if one.has_failed]
    if failed:
        return min(failed, key=lambda one: one.free_at)
    under_way = (one for one in records if not one.has_succeeded)
    return next(under_way, records[-1] if records else None)


def _first_failed(equal: Iterable[CallRecord], credential: str) -> CallRecord | None:
    """One that failed, with the same keys rather than with others."""
    failed = [one for one in equal if one.has_failed]
    own = [one for one in failed if one.last is not None and one.last.credential == credential]
    return min(own or failed, key=lambda one: one.free_at, default=None)


def _with(equal: list[CallRecord], found: CallRecord) -> list[CallRecord]:
    """The calls that may go on, the newest ones; of those that succeeded the last."""
    ended = [one for one in equal if one is not found and one.has_succeeded]
    kept = [
        one for one in equal if one is not found and (not one.has_succeeded or one in ended[-1:])
    ]
    return [*kept, found][-_MOST_EQUAL:]


def _keep(kept: OrderedDict[_Key, _Kept], key: _Key, one: _Kept, most: int) -> None:
    kept[key] = one
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
