"""The SQLite store: the contract of all stores, and what is its own."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
from pathlib import Path

import pytest
import trio

from smartclient.stores import Account, Read, Reserve, Settle, StoreError
from smartclient.stores.sqlite import SQLiteStore
from tests.smartclient.stores.contract import (
    AT,
    StoreContract,
    account,
    balance,
    in_asyncio,
    read,
    reserve,
    settle,
    tokens,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets.db"


@pytest.fixture
def store(path):
    store = SQLiteStore(path)
    yield store
    store.close()


@pytest.fixture
def impatient(path):
    store = SQLiteStore(path, timeout=0.05)
    yield store
    store.close()


@pytest.fixture
def other(path, store):
    """Somebody else who has the file open."""
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def open_files():
    links = [*Path("/proc/self/fd").iterdir()]  # the folder's own is gone after this
    return [str(link.readlink()) for link in links if link.is_symlink()]


class TestContract(StoreContract):
    pass


def test_processes_share_what_is_in_the_file(path, store):
    store.do(reserve(60, account()))

    other = SQLiteStore(path)

    assert read(other, account()) == (balance(held=60),)
    other.close()


def test_what_is_written_stays(path, store):
    store.do(settle("a", account(), spent=7))
    store.close()

    assert read(store, account()) == (balance(spent=7),)


def test_a_locked_file_is_an_error_after_the_timeout(impatient, other):
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreError, match=r"was locked by others for 0\.05 s; raise the") as caught:
        impatient.do(reserve(1, account()))

    assert not caught.value.maybe_done


def test_looking_waits_for_nobody(impatient, other):
    other.execute("BEGIN IMMEDIATE")

    assert read(impatient, account()) == (balance(),)


def test_a_settlement_that_was_not_written_is_written_later(impatient, other):
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError):
        impatient.do(settle("a", account(), spent=5))
    told = impatient.changed()

    other.execute("ROLLBACK")

    assert told.wait(10)
    assert read(impatient, account()) == (balance(spent=5),)


class Interrupted:
    """What it stands for is interrupted the first time, after it was done or before."""

    def __init__(self, work, *, is_done):
        self.work, self.is_done, self.is_first = work, is_done, True

    def __call__(self, *given, **more):
        was_first, self.is_first = self.is_first, False
        answer = self.work(*given, **more) if self.is_done or not was_first else None
        if was_first:
            raise KeyboardInterrupt
        return answer


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_a_settlement_that_was_interrupted_is_written_once(store, monkeypatch, is_done):
    """Ctrl-C in the middle of it, which a program may live through."""
    monkeypatch.setattr(store, "_once", Interrupted(store._once, is_done=is_done))
    with pytest.raises(KeyboardInterrupt):
        store.do(settle("a", account(), spent=5))

    store.close()

    assert read(store, account()) == (balance(spent=5),)


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_a_reservation_that_was_interrupted_holds_nothing(store, monkeypatch, is_done):
    monkeypatch.setattr(store, "_once", Interrupted(store._once, is_done=is_done))
    with pytest.raises(KeyboardInterrupt):
        store.do(reserve(5, account(), id="a"))

    store.close()

    assert read(store, account()) == (balance(),)


def test_a_failed_operation_leaves_the_store_usable(impatient, other):
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError):
        impatient.do(reserve(1, account()))
    other.execute("ROLLBACK")

    assert impatient.do(reserve(1, account())).short is None


@pytest.mark.parametrize("run", [in_asyncio, trio.run], ids=["asyncio", "trio"])
def test_waiting_does_not_block_a_loop(store, other, run):
    """The file is locked until this very loop unlocks it."""
    other.execute("BEGIN IMMEDIATE")

    async def unlock():
        other.execute("ROLLBACK")

    async def both():
        if run is trio.run:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.do_async, reserve(60, account()))
                nursery.start_soon(unlock)
        else:
            await asyncio.gather(store.do_async(reserve(60, account())), unlock())

    run(both)

    assert read(store, account()) == (balance(held=60),)


async def cancelled_while_locked(store, other, operation):
    """Leave `operation` while it waits for the file, or before; what the account comes to."""
    other.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(store.do_async(operation))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    other.execute("ROLLBACK")
    # One thread does all, in order: it is done with what was left behind.
    return await store.do_async(Read((account(),), AT))


def test_a_cancelled_reservation_holds_nothing(store, other):
    assert asyncio.run(cancelled_while_locked(store, other, reserve(60, account()))) == (balance(),)


def test_a_cancelled_settlement_counts(store, other):
    left = settle("a", account(), spent=5)

    assert asyncio.run(cancelled_while_locked(store, other, left)) == (balance(spent=5),)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_and_its_parent_count_together(store):
    store.do(reserve(1, account(tokens=3)))

    child = os.fork()
    if child == 0:
        os._exit(store.do(reserve(1, account(tokens=3))).short is not None)
    _, status = os.waitpid(child, 0)

    assert status == 0
    assert store.do(reserve(1, account(tokens=3))).short is None
    assert read(store, account()) == (balance(held=3),)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_was_forked_during_an_operation_has_its_own_connection(path):
    """The file is locked, so the parent's thread is still inside when the child begins."""
    store = SQLiteStore(path, timeout=0.05)
    with store._lock:
        child = os.fork()
        if child == 0:
            os._exit(store.do(reserve(1, account())).short is not None)
        _, status = os.waitpid(child, 0)

    assert status == 0
    assert store.do(reserve(1, account())).balances == (balance(held=2),)
    store.close()


def test_a_store_in_use_by_this_process_is_an_error_after_the_timeout(impatient):
    with impatient._lock, pytest.raises(StoreError, match=r"in use by this process for 0\.05 s"):
        impatient.do(reserve(1, account()))


def test_giving_back_waits_for_the_file_too(impatient, other):
    impatient.do(reserve(60, account()))
    other.execute("BEGIN IMMEDIATE")
    told = impatient.changed()
    impatient._undo(reserve(60, account()))

    other.execute("ROLLBACK")

    assert told.wait(10)
    assert read(impatient, account()) == (balance(),)


def test_a_store_that_is_dropped_closes_its_file(path):
    store = SQLiteStore(path)

    del store
    gc.collect()

    assert not [one for one in open_files() if one.startswith(str(path))]


def test_a_full_disk_is_an_error_and_changes_nothing(path):
    store = SQLiteStore(path)
    store.do(settle("a", account(), spent=5))
    store._connection.execute("PRAGMA max_page_count = 1")  # no more than it has

    with pytest.raises(StoreError, match="the disk is full; nothing was changed") as caught:
        store.do(settle("b", account(), *[account(f"{n:0900}") for n in range(40)], spent=2))

    assert not caught.value.maybe_done
    assert read(store, account()) == (balance(spent=5),)
    store.close()


def test_a_store_shows_where_it_is(path, store):
    assert repr(store) == f"SQLiteStore({str(path)!r})"


def test_a_file_that_was_replaced_is_opened_anew(path, store):
    """Or this process would count in a file that no other can see."""
    store.do(settle("a", account(), spent=5))
    for one in path.parent.iterdir():
        one.unlink()
    other = SQLiteStore(path)
    other.do(settle("b", account(), spent=2))

    assert read(store, account()) == (balance(spent=2),)
    other.close()


def test_a_folder_that_went_away_is_an_error(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    store = SQLiteStore(folder / "budgets.db")
    for one in [*folder.iterdir()]:
        one.unlink()
    folder.rmdir()

    with pytest.raises(StoreError, match="there is no folder"):
        store.do(reserve(1, account()))


def test_accounts_of_windows_that_ended_are_removed(store, other):
    for number in range(20):
        ended = Account(f"day{number}", expires=AT)
        store.do(Reserve((ended,), tokens(1), AT))

    for number in range(4):
        store.do(settle(f"{number}", account("app"), spent=1))
        store.do(Settle(f"late{number}", (), AT + 3600))

    assert other.execute("SELECT key FROM accounts").fetchall() == [("app",)]


def test_calls_are_forgotten_after_a_while(store, other):
    store.do(settle("a", account(), spent=1))

    store.do(Settle("b", (), AT + 901))

    assert other.execute("SELECT id FROM calls").fetchall() == [("b",)]
