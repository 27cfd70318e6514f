"""Set once, from anywhere; waited for by threads and loops."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest
import trio
import trio.testing

from smartclient._latch import Latch
from tests.smartclient.fakes import BLOCKING


def waited(world, latch, timeout=5.0):
    """Whether `latch` opened, waited for in `world`."""
    return world.do(latch.wait(timeout) if world is BLOCKING else latch.wait_async(timeout))


def soon(function):
    """Run `function` in another thread, a moment later; the thread."""
    timer = threading.Timer(0.02, function)
    timer.start()
    return timer


def test_one_that_is_set_already_lets_through_at_once(world):
    latch = Latch()
    latch.set()

    assert waited(world, latch, timeout=None)


def test_a_thread_that_sets_it_wakes_whoever_waits(world):
    latch = Latch()
    timer = soon(latch.set)

    assert waited(world, latch)

    timer.join()


@pytest.mark.parametrize("timeout", [0.0, 0.01, -1.0], ids=["none", "short", "negative"])
def test_a_wait_ends_after_its_timeout(world, timeout):
    latch = Latch()

    assert not waited(world, latch, timeout)


def test_who_waited_leaves_nothing_behind(world):
    latch = Latch()

    waited(world, latch, 0.001)

    assert not latch._wakers


def test_a_timeout_longer_than_any_lock_takes_is_no_error():
    latch = Latch()
    timer = soon(latch.set)

    assert latch.wait(1e12)

    timer.join()


def test_it_may_be_set_twice_and_by_many():
    latch = Latch()
    threads = [threading.Thread(target=latch.set) for _ in range(4)]

    for thread in threads:
        thread.start()
    opened = latch.wait(5.0)
    for thread in threads:
        thread.join()

    assert opened
    assert latch.is_set


def test_all_who_wait_are_woken():
    latch, opened = Latch(), []
    threads = [threading.Thread(target=lambda: opened.append(latch.wait(5.0))) for _ in range(5)]
    for thread in threads:
        thread.start()
    while len(latch._wakers) < 5:
        time.sleep(0.001)

    latch.set()
    for thread in threads:
        thread.join()

    assert opened == [True] * 5


class Dropped:
    """Sets a latch when it is freed."""

    def __init__(self, latch) -> None:
        self.latch, self.cycle = latch, self

    def __del__(self) -> None:
        self.latch.set()


def test_a_finalizer_may_set_it_in_the_thread_that_waits():
    """The collector may run in the middle of a wait, in that very thread."""
    latch = Latch()

    class Gate(Latch):
        """Collects garbage as soon as somebody is about to wait."""

        @property
        def _is_set(self):
            if self._wakers:
                gc.collect()
            return latch_is_set[0]

        @_is_set.setter
        def _is_set(self, value):
            latch_is_set[0] = value

    latch_is_set = [False]
    latch = Gate()
    Dropped(latch)

    assert latch.wait(5.0)


def test_a_task_that_is_cancelled_leaves_nothing_behind():
    latch = Latch()

    async def main():
        task = asyncio.create_task(latch.wait_async(None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert not latch._wakers
    latch.set()


def test_a_trio_task_that_is_cancelled_leaves_nothing_behind():
    latch = Latch()

    async def main():
        with trio.move_on_after(0.001):
            await latch.wait_async(None)

    trio.run(main)

    assert not latch._wakers


def test_a_loop_that_was_closed_meanwhile_keeps_nobody_else_asleep():
    latch, loop = Latch(), asyncio.new_event_loop()
    task = loop.create_task(latch.wait_async(None))
    loop.run_until_complete(asyncio.sleep(0))
    wakers = list(latch._wakers)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    latch._wakers.extend(wakers)  # as if the loop had ended without its task
    timer = soon(latch.set)

    assert latch.wait(5.0)

    timer.join()


def test_a_trio_run_that_has_ended_keeps_nobody_else_asleep():
    latch, wakers = Latch(), []

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(latch.wait_async, None)
            await trio.testing.wait_all_tasks_blocked()
            wakers.extend(latch._wakers)
            nursery.cancel_scope.cancel()

    trio.run(main)
    latch._wakers.extend(wakers)
    timer = soon(latch.set)

    assert latch.wait(5.0)

    timer.join()


def test_tasks_of_two_loops_and_a_thread_are_woken_together():
    latch, opened = Latch(), []

    def in_a_loop():
        opened.append(asyncio.run(latch.wait_async(5.0)))

    threads = [threading.Thread(target=in_a_loop) for _ in range(2)]
    threads.append(threading.Thread(target=lambda: opened.append(latch.wait(5.0))))
    for thread in threads:
        thread.start()
    while len(latch._wakers) < 3:
        time.sleep(0.001)

    latch.set()
    for thread in threads:
        thread.join()

    assert opened == [True] * 3
