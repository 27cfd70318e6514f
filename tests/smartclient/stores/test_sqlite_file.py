"""What cannot be the file of a store is refused where it is given."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from smartclient.stores import StoreError
from smartclient.stores.sqlite import SQLiteStore
from smartclient.stores.sqlite_file import SCHEMA, connect, failure


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets.db"


def written(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("", "path must name a file", id="empty"),
        pytest.param(":memory:", "a MemoryStore keeps budgets of one process", id="memory"),
        pytest.param("file:x?mode=memory", "path must name a file", id="uri"),
        pytest.param("a\0b", "path must name a file", id="nul"),
        pytest.param("/absent/budgets.db", "there is no folder /absent", id="no-folder"),
        pytest.param("/proc/budgets.db", "must be able to write the file", id="cannot-write"),
        pytest.param("/", "is a folder: name a file in it", id="folder"),
    ],
)
def test_a_path_that_cannot_be_one_is_refused(path, message):
    with pytest.raises(ValueError, match=message):
        SQLiteStore(path)


class BytesPath:
    def __fspath__(self):
        return b"budgets.db"


@pytest.mark.parametrize("path", [None, 3, b"budgets.db", BytesPath()])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(TypeError, match="path must be text or a Path"):
        SQLiteStore(path)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_cannot_be_is_refused(path, seconds):
    with pytest.raises(ValueError, match="timeout must be above 0 s and at most"):
        SQLiteStore(path, timeout=seconds)


def test_a_file_that_is_no_database_is_refused_and_left_alone(path):
    path.write_text("not a database, but what somebody needs " * 30)

    with pytest.raises(ValueError, match="it is no SQLite database"):
        SQLiteStore(path)

    assert path.read_text().startswith("not a database")


def test_the_database_of_another_program_is_refused(path):
    written(path, "CREATE TABLE theirs (x)")

    with pytest.raises(ValueError, match="is a database of another program"):
        SQLiteStore(path)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        pytest.param(SCHEMA + 1, "written by a later version", id="newer"),
        pytest.param(SCHEMA - 1, "written by an earlier version", id="older"),
    ],
)
def test_a_file_of_another_version_is_refused(path, schema, message):
    SQLiteStore(path).close()
    written(path, f"PRAGMA user_version = {schema}")

    with pytest.raises(ValueError, match=message):
        SQLiteStore(path)


def test_an_empty_file_becomes_a_store(path):
    path.touch()

    SQLiteStore(path).close()


@pytest.mark.parametrize("turn", range(10))
def test_a_new_file_may_be_opened_by_many_at_once(path, turn):
    begin = Barrier(8)

    def open_it(_):
        begin.wait(20)
        connect(Path(path), 20.0).close()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(open_it, range(8))) == [None] * 8


def test_a_file_that_somebody_sets_up_is_waited_for(path):
    """Setting the write-ahead log does not wait by itself."""
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        ThreadPoolExecutor() as pool,
    ):
        other.execute("BEGIN EXCLUSIVE")
        opened = pool.submit(connect, Path(path), 20.0)
        with pytest.raises(TimeoutError):
            opened.result(0.02)

        other.execute("ROLLBACK")

        opened.result(20).close()


def test_a_file_that_stays_locked_is_an_error(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")

        with pytest.raises(StoreError, match="was locked by others"):
            connect(Path(path), 0.05)


@pytest.mark.parametrize(
    ("code", "message", "maybe_done"),
    [
        pytest.param(sqlite3.SQLITE_FULL, "the disk is full; nothing was", False, id="full"),
        pytest.param(sqlite3.SQLITE_IOERR_FSYNC, "cannot be used: why", True, id="broken-disk"),
        pytest.param(sqlite3.SQLITE_READONLY, "must be able to write", False, id="read-only"),
    ],
)
def test_a_failure_says_whether_it_may_have_been_done(path, code, message, maybe_done):
    error = sqlite3.OperationalError("why")
    error.sqlite_errorcode = code

    told = failure(error, path, 1.0)

    assert message in str(told)
    assert told.maybe_done is maybe_done
