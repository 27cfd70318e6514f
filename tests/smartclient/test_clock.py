"""The machine's time, in each world."""

from __future__ import annotations

import asyncio
import time

import pytest
import trio

from smartclient._clock import SystemClock, under_trio


def test_the_system_clock_is_the_machines():
    clock = SystemClock()

    assert abs(clock.now() - time.time()) < 60.0
    assert clock.monotonic() <= time.monotonic()
    clock.sleep(0.0)


@pytest.mark.parametrize("run", [asyncio.run, None], ids=["asyncio", "trio"])
def test_sleeping_lets_others_run(run):
    order = []

    async def sleeper():
        await SystemClock().sleep_async(0.0)
        order.append("slept")

    async def in_asyncio():
        task = asyncio.create_task(sleeper())
        order.append("first")
        await task

    async def in_trio():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeper)
            order.append("first")

    asyncio.run(in_asyncio()) if run else trio.run(in_trio)

    assert order == ["first", "slept"]


def test_trio_is_recognised_where_it_runs():
    async def asked():
        return under_trio()

    assert trio.run(asked)
    assert not asyncio.run(asked())
    assert not under_trio()
