"""What both performers do for the effects that calls share: stores, and latches."""

from __future__ import annotations

import asyncio
import threading

import pytest
import trio

from smartclient._flow import ask, park
from smartclient._latch import Latch
from smartclient.stores import Account, Amount, MemoryStore, Reserve, StoreError
from tests.smartclient.budgets.spending import FailingStore
from tests.smartclient.fakes import ASYNCIO

RESERVE = Reserve((Account("app", tokens=5),), Amount(tokens=5), 0.0)


def run(world, flow):
    return world.do(world.performer(world.provider()).run(flow))


@pytest.mark.parametrize("store", [MemoryStore, FailingStore], ids=["quick", "slow"])
def test_a_store_is_asked_and_answers(world, store):
    asked = store()

    first, second = run(world, ask(asked, RESERVE)), run(world, ask(asked, RESERVE))

    assert (first.short, second.short) == (None, (0, "tokens"))


def test_a_store_that_fails_raises_into_the_flow(world):
    store = FailingStore()
    store.is_down = True

    def flow():
        try:
            yield from ask(store, RESERVE)
        except StoreError as error:
            return str(error)

    assert run(world, flow()) == "no route to it"


def test_async_code_never_blocks_on_a_store_that_is_not_quick():
    class Blocking(FailingStore):
        def do(self, operation):
            raise AssertionError("it blocks")

        async def do_async(self, operation):
            await asyncio.sleep(0)
            return "awaited"

    assert run(ASYNCIO, ask(Blocking(), RESERVE)) == "awaited"


def test_a_latch_is_waited_for(world):
    latch = Latch()
    timer = threading.Timer(0.01, latch.set)
    timer.start()

    assert run(world, park(latch, 5.0)) is True

    timer.join()


def test_a_wait_for_a_latch_ends_after_its_timeout(world):
    assert run(world, park(Latch(), 0.001)) is False


def parked(seen, latch):
    """A flow that notes what it is left by."""
    try:
        yield from park(latch, None)
    except BaseException as error:
        seen.append(type(error))
        raise


def test_a_task_that_is_cancelled_while_parked_leaves_its_flow_and_its_latch():
    seen, latch = [], Latch()

    async def main():
        performer = ASYNCIO.performer(ASYNCIO.provider())
        task = asyncio.create_task(performer.run(parked(seen, latch)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert seen == [asyncio.CancelledError]
    assert not latch._wakers


def test_a_trio_task_that_is_cancelled_while_parked_leaves_too():
    seen, latch = [], Latch()

    async def main():
        performer = ASYNCIO.performer(ASYNCIO.provider())
        with trio.move_on_after(0.001):
            await performer.run(parked(seen, latch))

    trio.run(main)

    assert seen == [trio.Cancelled]
    assert not latch._wakers
