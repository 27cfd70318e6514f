"""Budgets that several processes of one machine share, in a file.

Source: SQLite, "Write-Ahead Logging", and "How To Corrupt An SQLite Database File", sections
2.6 (a connection is not carried across a fork) and 2.4 (a file is removed while in use).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from .._clock import checked_seconds
from .._latch import Latch
from . import sqlite_file
from .changes import Changes
from .operations import Operation, Read, Reserve, Settle
from .owed import Owed
from .protocol import StoreError
from .sqlite_rows import Rows
from .sums import HOLD, check
from .worker import Worker

__all__ = ["SQLiteStore"]

T = TypeVar("T")


class SQLiteStore:
    """Keeps budgets in a file that processes of one machine share.

    Each operation is one transaction: a process that is killed leaves all of it or none.
    After a power cut the last operations may be missing. The file must be on a disk of this
    machine: locks of network file systems, such as NFS, are not to be relied on.

    Threads take turns, and a forked child opens the file anew. Async code has its operations
    done in a thread. A settlement that could not be written is kept, and written later.

    Args:
        path: The file; made where there is none. Two more lie beside it while it is in use.
        timeout: Seconds to wait for other processes.
        remember: Seconds for which the same settlement sent twice counts once.

    Raises:
        ValueError: `path` cannot be a store: it is a folder, no database, another program's,
            of another version of this package, or cannot be written.
        StoreError: Other processes keep it locked.
    """

    is_quick = False

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 5.0, remember: float = 900.0
    ) -> None:
        self._path = _checked_path(path)
        self._timeout = checked_seconds("timeout", timeout)
        self._remember = checked_seconds("remember", remember)
        self._changes = Changes()
        self._lock, self._has_lock = threading.Lock(), False
        self._owed: Owed[Settle | Reserve] = Owed(self._tell, keep=remember)
        self._worker = Worker(self.do, self._undo, threads=1)
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection] = []
        self._opened()
        _watch_forks(self)

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self._path)!r})"

    def __del__(self) -> None:
        # Not there when the path was refused.
        if getattr(self, "_connection", None) is not None:
            self._close()

    def do(self, operation: Operation) -> Any:
        """Do it, and answer; see `Operation`.

        Raises:
            StoreError: The file stays locked, or cannot be written.
            TypeError: A count is no whole number.
            ValueError: A count is out of bounds.
        """
        check(operation)
        try:
            answer = self._once(lambda rows: rows.do(operation), writes=type(operation) is not Read)
        except BaseException as error:  # interrupted, for one
            is_undone = isinstance(error, StoreError) and not error.maybe_done
            match operation:
                case Settle(id) if id:
                    self._owed.add(operation)
                case Reserve(id=id) if id and not is_undone:
                    self._owed.add(operation)
            raise
        if isinstance(operation, Settle):
            self._changes.tell()
        self._owed.hurry()
        return answer

    async def do_async(self, operation: Operation) -> Any:
        """The same, in a thread of this store."""
        check(operation)
        return await self._worker.do(operation)

    def changed(self) -> Latch:
        """Set the next time that something is let go by this process."""
        return self._changes.next()

    def close(self) -> None:
        """Close the file, once what is under way is done; the next operation opens it again."""
        self._owed.flush()
        self._worker.close()
        with self._lock:
            self._close()

    def _tell(self, owed: Settle | Reserve) -> None:
        if isinstance(owed, Settle):
            self._once(lambda rows: rows.do(owed))
        else:
            self._once(lambda rows: rows.give_back(owed))
        self._changes.tell()

    def _undo(self, reserve: Reserve) -> None:
        try:
            self._tell(reserve)
        except StoreError:
            self._owed.add(reserve)

    def _once(self, work: Callable[[Rows], T], *, writes: bool = True) -> T:
        """Do `work` in one transaction; one that only reads waits for nobody."""
        if not self._lock.acquire(timeout=self._timeout):
            raise StoreError(f"{self._path} was in use by this process for {self._timeout:g} s")
        try:
            connection = self._usable()
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                answer = work(Rows(connection, remember=self._remember, hold=HOLD))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return answer
        except (sqlite3.Error, OSError) as error:
            raise sqlite_file.failure(error, self._path, self._timeout) from error
        finally:
            self._lock.release()

    def _usable(self) -> sqlite3.Connection:
        """The connection, to the file that has the name now: another may have taken its place."""
        try:
            is_same = self._connection is not None and _identity(self._path) == self._file
        except OSError:  # removed, with its folder perhaps
            is_same = False
        if is_same and self._connection is not None:
            return self._connection
        self._close()
        try:
            return self._opened()
        except ValueError as error:
            raise StoreError(f"{error} (it was there before)") from error

    def _opened(self) -> sqlite3.Connection:
        connection = self._connection = sqlite_file.connect(self._path, self._timeout)
        self._file = _identity(self._path)
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _before_fork(self) -> None:
        """Leave nothing that a child could inherit."""
        self._has_lock = self._lock.acquire(timeout=self._timeout)
        if self._has_lock:
            self._close()

    def _after_fork(self, *, is_child: bool) -> None:
        if self._has_lock:
            self._has_lock = False
            self._lock.release()
        elif is_child:
            # In use all that time: neither used nor closed here, which would harm the parent.
            self._lock = threading.Lock()
            if self._connection is not None:
                self._inherited.append(self._connection)
                self._connection = None


def _watch_forks(store: SQLiteStore) -> None:
    found = weakref.ref(store)

    def before() -> None:
        if (store := found()) is not None:
            store._before_fork()

    def after(*, is_child: bool) -> None:
        if (store := found()) is not None:
            store._after_fork(is_child=is_child)

    os.register_at_fork(
        before=before,
        after_in_parent=lambda: after(is_child=False),
        after_in_child=lambda: after(is_child=True),
    )


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _checked_path(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be text or a Path, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"path must be text or a Path, not {type(path).__name__}")
    if not text or text.startswith((":memory:", "file:")) or "\0" in text:
        raise ValueError(
            f"path must name a file, not {text!r}; a MemoryStore keeps budgets of one process"
        )
    return Path(text).absolute()
