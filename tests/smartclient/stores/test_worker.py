"""Operations in threads for async code: whoever is cancelled leaves nothing half done."""

from __future__ import annotations

import asyncio
import threading

import pytest

from smartclient.stores import Reserved
from smartclient.stores.worker import Worker
from tests.smartclient.stores.contract import account, reserve, settle


class Slow:
    """A store whose operations take until they are let."""

    def __init__(self):
        self.entered, self.let = threading.Event(), threading.Event()
        self.done, self.undone, self.left = [], [], threading.Event()
        self.worker = Worker(self.do, self.undo, threads=1)

    def do(self, operation):
        self.entered.set()
        assert self.let.wait(20)
        self.done.append(operation)
        if operation == "broken":
            raise OSError("broken")
        return Reserved(()) if hasattr(operation, "amount") else ()

    def undo(self, operation):
        self.undone.append(operation)
        self.left.set()


@pytest.fixture
def slow():
    slow = Slow()
    yield slow
    slow.let.set()
    slow.worker.close()


async def cancelled(slow, *operations, when):
    """Ask for all of them, and leave the last one."""
    tasks = [asyncio.create_task(slow.worker.do(one)) for one in operations]
    await asyncio.to_thread(slow.entered.wait, 20)
    await when(slow)
    tasks[-1].cancel()
    await asyncio.wait(tasks[-1:])
    slow.let.set()
    await asyncio.wait(tasks)


async def while_it_runs(slow):
    """Nothing more: its thread is in it."""


async def once_it_is_done(slow):
    """The loop has not been told yet, since it waits here without turning."""
    slow.let.set()
    while not slow.done:
        slow.entered.wait(0.001)
    slow.worker.close()


@pytest.mark.parametrize("when", [while_it_runs, once_it_is_done])
def test_what_a_cancelled_reservation_took_is_given_back(slow, when):
    taken = reserve(1, account())

    asyncio.run(cancelled(slow, taken, when=when))

    assert slow.left.wait(10)
    assert slow.undone == [taken]


def test_a_cancelled_reservation_that_had_not_begun_never_does(slow):
    before, waiting = settle("a", account()), reserve(1, account())

    asyncio.run(cancelled(slow, before, waiting, when=while_it_runs))
    slow.worker.close()

    assert (slow.done, slow.undone) == ([before], [])


def test_a_cancelled_settlement_is_done_all_the_same(slow):
    before, waiting = settle("a", account()), settle("b", account())

    asyncio.run(cancelled(slow, before, waiting, when=while_it_runs))
    slow.worker.close()

    assert slow.done == [before, waiting]


def test_an_error_reaches_who_awaits_it(slow):
    slow.let.set()

    with pytest.raises(OSError, match="broken"):
        asyncio.run(slow.worker.do("broken"))
