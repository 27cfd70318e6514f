from __future__ import annotations

import asyncio

import pytest

from server_reference.scripted.clock import ManualClock


def test_a_sleep_lasts_until_the_clock_has_passed_its_end():
    async def sleeping():
        clock = ManualClock(100.0)
        sleep = asyncio.ensure_future(clock.sleep_async(5))
        await asyncio.sleep(0)
        clock.advance(4.9)
        await asyncio.sleep(0)
        before = sleep.done()
        clock.advance(0.2)
        await asyncio.wait_for(sleep, 5)
        return before, clock.now()

    assert asyncio.run(sleeping()) == (False, pytest.approx(105.1))


def test_a_clock_that_advances_by_itself_ends_a_sleep_at_once():
    clock = ManualClock(100.0, auto_advance=True)

    asyncio.run(clock.sleep_async(3600))

    assert clock.now() == 3700.0


def test_a_sleep_that_is_cancelled_is_forgotten():
    async def cancelled():
        clock = ManualClock()
        sleep = asyncio.ensure_future(clock.sleep_async(5))
        await asyncio.sleep(0)
        during = clock.sleeping
        sleep.cancel()
        await asyncio.wait([sleep])
        return during, clock.sleeping

    assert asyncio.run(cancelled()) == (1, 0)


def test_no_time_is_no_sleep():
    asyncio.run(asyncio.wait_for(ManualClock().sleep_async(0), 5))


def test_a_clock_never_goes_back():
    with pytest.raises(ValueError, match="advance by at least 0 s, not -1"):
        ManualClock().advance(-1)
