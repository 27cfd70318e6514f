"""The ledger of calls: added to by many threads, bounded in memory, exact in its sums."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Self

from .._clock import SystemClock
from ..report import CallReport
from .appending import Appender
from .entry import Entry, entry_of
from .files import Format, entries, write
from .sums import By, Sums, Total

__all__ = ["Ledger"]


class Ledger:
    """Keeps one `Entry` for each call that ended.

    Give it to any number of clients as `Settings(ledger=...)`; threads and event loops share
    it. A forked child begins with an empty one, and goes on with the file.

    Args:
        path: A file to which each entry is appended at once, as a line of JSON. Processes
            may share it. `None` keeps entries in memory only.
        size: Entries that are kept in memory; the oldest go first. Totals count those that
            went, too.

    Raises:
        OSError: The file cannot be written.
        ValueError: It holds something else, or `size` is below 0.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, size: int = 10_000) -> None:
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"size must be a number of entries, not {type(size).__name__}")
        if size < 0:
            raise ValueError(f"size must be at least 0, not {size}")
        self._size = size
        self._file = None if path is None else Appender(Path(path))
        self._pages = {os.getpid(): _Pages(size, self._file)}

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, size: int = 100_000) -> Self:
        """The ledger in a file of JSON lines or in an exported spreadsheet.

        What is no entry, such as a line that was being written when a machine went down, is
        passed over and counted in `unreadable`.

        Args:
            size: Entries that are kept in memory, the newest; totals count all.

        Raises:
            OSError: It cannot be read.
            ValueError: There is no entry in it, and yet it is not empty.
        """
        ledger = cls(size=size)
        pages, place = ledger._current, Path(path)
        for entry in entries(place):
            if entry is None:
                pages.unreadable += 1
            else:
                pages.add(entry)
        if pages.unreadable and not pages.added:
            raise ValueError(f"{place} is no ledger: no line of it is an entry")
        return ledger

    def add(self, report: CallReport, *, at: float | None = None) -> None:
        """Keep what `report` says.

        Args:
            at: When the call ended, in Unix seconds; `None` is now.
        """
        self._current.add(entry_of(report, at=SystemClock.now() if at is None else at))

    def total(self) -> Total:
        """What all calls came to."""
        with self._current as pages:
            return pages.sums.total()

    def totals(self, by: By = "model") -> dict[str | None, Total]:
        """What the calls came to by `tag`, `model`, `day` (in UTC) or `provider`.

        A call in nested scopes counts under each of its tags, and one without under `None`.

        Raises:
            ValueError: By something else.
        """
        with self._current as pages:
            return pages.sums.totals(by)

    def export(self, path: str | os.PathLike[str], format: Format = "jsonl") -> int:
        """Write the entries in memory into a file of their own; return how many.

        Args:
            format: `jsonl`, or `csv` for a spreadsheet.

        Raises:
            OSError: The file cannot be written.
            ValueError: There is no such format, or it is the file that is appended to.
        """
        place = Path(path)
        if self._file is not None and place.resolve() == self._file.path.resolve():
            raise ValueError(f"{place} is what this ledger appends to; export to another file")
        found = list(self)
        write(place, found, format)
        return len(found)

    def close(self) -> None:
        """Close the file; what is added later stays in memory. Safe to call twice."""
        with self._current as pages:
            pages.file = None
        if self._file is not None:
            self._file.close()

    @property
    def dropped(self) -> int:
        """Entries that are no longer in memory, because newer ones came."""
        with self._current as pages:
            return pages.added - len(pages.entries)

    @property
    def lost(self) -> int:
        """Entries that could not be written to the file, such as on a full disk."""
        with self._current:
            return 0 if self._file is None else self._file.lost

    @property
    def unreadable(self) -> int:
        """Lines that `read` passed over."""
        return self._current.unreadable

    def __iter__(self) -> Iterator[Entry]:
        with self._current as pages:
            return iter(list(pages.entries))

    def __len__(self) -> int:
        """Entries in memory."""
        with self._current as pages:
            return len(pages.entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _current(self) -> _Pages:
        """This process's: a lock of the parent may be held for ever in a child."""
        process = os.getpid()
        pages = self._pages.get(process)
        if pages is None:
            pages = self._pages.setdefault(process, _Pages(self._size, self._file))
        return pages


class _Pages:
    """What one process keeps."""

    __slots__ = ("_incoming", "_lock", "added", "entries", "file", "sums", "unreadable")

    def __init__(self, size: int, file: Appender | None) -> None:
        self.entries: deque[Entry] = deque(maxlen=size)
        self.sums, self.file = Sums(), file
        self.added = self.unreadable = 0
        self._incoming: deque[Entry] = deque()
        self._lock = Lock()

    def add(self, entry: Entry) -> None:
        """Keep `entry`, or leave it to who is at it: a report may come of a collection that
        interrupts this very method, so nobody waits here for the lock.
        """
        self._incoming.append(entry)
        while self._incoming and self._lock.acquire(blocking=False):
            try:
                self._take()
            finally:
                self._lock.release()

    def __enter__(self) -> Self:
        self._lock.acquire()
        self._take()
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        while self._incoming and self._lock.acquire(blocking=False):  # came while it was held
            try:
                self._take()
            finally:
                self._lock.release()

    def _take(self) -> None:
        while self._incoming:
            entry = self._incoming.popleft()
            self.added += 1
            self.entries.append(entry)
            self.sums.add(entry)
            if self.file is not None:
                self.file.append(entry)
