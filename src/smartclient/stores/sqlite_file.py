"""The file of an `SQLiteStore`: opened, set up, and refused where it cannot be one."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from .protocol import StoreError

__all__ = ["SCHEMA", "connect", "failure"]

SCHEMA = 1
"""Counted up when an older version of this package could not read what is written."""

_APPLICATION = 0x736D6274
"""Marks the file as ours, so that no other program's database is ever written to."""

_TABLES = """
CREATE TABLE accounts (
    key TEXT PRIMARY KEY, expires REAL,
    spent_requests INTEGER NOT NULL, spent_tokens INTEGER NOT NULL, spent_nanodollars INTEGER NOT NULL,
    held_requests INTEGER NOT NULL, held_tokens INTEGER NOT NULL, held_nanodollars INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX accounts_by_end ON accounts (expires) WHERE expires IS NOT NULL;
CREATE TABLE calls (id TEXT PRIMARY KEY, state TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX calls_by_end ON calls (expires);
"""  # noqa: E501 (a table reads better with a line for each group)

_PAUSE = 0.005
"""Seconds between two tries to set the file up, while another process does."""


def connect(path: Path, timeout: float) -> sqlite3.Connection:
    """Open `path`, made where there is none, for threads that take turns.

    Raises:
        ValueError: It cannot be a store.
        StoreError: Other processes keep it locked for `timeout` seconds.
    """
    _check_place(path)
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _opened(path, timeout)
        except sqlite3.DatabaseError as error:
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if is_busy and time.monotonic() < deadline:
                time.sleep(_PAUSE)  # setting WAL does not wait by itself
                continue
            if is_busy:
                raise failure(error, path, timeout) from error
            raise ValueError(f"{path} cannot be a store of budgets: {_why(error)}") from error


def failure(error: sqlite3.Error | OSError, path: Path, timeout: float) -> StoreError:
    """What went wrong with an operation, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return StoreError(
            f"{path} was locked by others for {timeout:g} s; raise the timeout, or look for a "
            "process that keeps a transaction open"
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"{path} cannot grow: the disk is full; nothing was changed")
    # Of these nobody can say how much of a commit reached the disk.
    maybe_done = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT)
    return StoreError(f"{path} cannot be used: {_why(error)}", maybe_done=maybe_done)


def _opened(path: Path, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        _set_up(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN")  # all three as of one moment: another process may set it up
    application, schema = _number(connection, "application_id"), _number(connection, "user_version")
    tables = _one(connection, "SELECT count(*) FROM sqlite_master")
    connection.execute("COMMIT")
    if application != _APPLICATION and (application or schema or tables):
        raise ValueError(f"{path} is a database of another program: give a store a file of its own")
    if application == _APPLICATION:
        _check_schema(schema, path)
    mode = _one(connection, "PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise ValueError(
            f"{path} cannot be shared: SQLite's write-ahead log does not work there; "
            "take a folder on a disk of this machine"
        )
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")  # closing rolls back what does not get through
    if _number(connection, "application_id") != _APPLICATION:  # else another process did it
        for statement in filter(str.strip, _TABLES.split(";")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute("COMMIT")


def _check_schema(schema: int, path: Path) -> None:
    if schema > SCHEMA:
        raise ValueError(
            f"{path} was written by a later version of smartclient (schema {schema}, this one "
            f"has {SCHEMA}): upgrade here, or give another file"
        )
    if schema < SCHEMA:
        raise ValueError(
            f"{path} was written by an earlier version of smartclient (schema {schema}, this "
            f"one has {SCHEMA}): give another file, and remove this one when no process uses it"
        )


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be made: there is no folder {path.parent}")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    found: int = _one(connection, f"PRAGMA {pragma}")
    return found


def _one(connection: sqlite3.Connection, statement: str) -> Any:
    with closing(connection.execute(statement)) as cursor:
        return cursor.fetchone()[0]


def _why(error: sqlite3.Error | OSError) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return "it is no SQLite database"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return f"{error}; this process must be able to write the file and to make files beside it"
    return str(error)
