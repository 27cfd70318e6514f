"""The machine's time, in each world."""

from __future__ import annotations

import asyncio
import time

import trio

from smartclient._clock import SystemClock, under_trio


def test_the_system_clock_is_the_machines():
    clock = SystemClock()

    assert abs(clock.now() - time.time()) < 60.0
    assert clock.monotonic() <= time.monotonic()
    clock.sleep(0.0)


def test_sleeping_lets_other_tasks_of_asyncio_run():
    order = []

    async def main():
        task = asyncio.create_task(sleep_and_note(order))
        order.append("first")
        await task

    asyncio.run(main())

    assert order == ["first", "slept"]


def test_sleeping_lets_other_tasks_of_trio_run():
    order = []

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep_and_note, order)
            order.append("first")

    trio.run(main)

    assert order == ["first", "slept"]


async def sleep_and_note(order):
    await SystemClock().sleep_async(0.0)
    order.append("slept")


def test_trio_is_recognised_where_it_runs():
    async def asked():
        return under_trio()

    assert trio.run(asked)
    assert not asyncio.run(asked())
    assert not under_trio()
