from __future__ import annotations

import asyncio

import pytest
import trio

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


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_clock_never_goes_back_nor_to_the_end_of_time(seconds):
    with pytest.raises(ValueError, match=f"at least 0 s and finite, not {seconds}"):
        ManualClock().advance(seconds)


def test_a_blocking_sleep_moves_the_clock_and_wakes_who_sleeps():
    async def sleeping():
        clock = ManualClock(100.0)
        sleep = asyncio.ensure_future(clock.sleep_async(5))
        await asyncio.to_thread(clock.wait_for_sleepers)
        clock.sleep(5)
        await asyncio.wait_for(sleep, 5)
        return clock.now(), clock.monotonic()

    assert asyncio.run(sleeping()) == (105.0, 105.0)


def test_nobody_sleeps_for_longer_than_patience_lasts():
    with pytest.raises(TimeoutError, match=r"0 instead of 2 slept on the clock after 0.01 s"):
        ManualClock().wait_for_sleepers(2, patience=0.01)


def test_a_sleeper_whose_loop_has_ended_holds_nobody_up():
    clock = ManualClock()
    loop = asyncio.new_event_loop()
    sleep = loop.create_task(clock.sleep_async(5))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    clock.advance(5)

    assert (clock.sleeping, sleep.done()) == (0, False)
    sleep.get_coro().close()


@pytest.mark.parametrize("auto_advance", [True, False])
def test_trio_sleeps_on_it_too(auto_advance):
    async def sleeping():
        clock = ManualClock(100.0, auto_advance=auto_advance)
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(clock.sleep_async, 5)
                if not auto_advance:
                    await trio.to_thread.run_sync(clock.wait_for_sleepers)
                    clock.advance(5)
        return clock.now()

    assert trio.run(sleeping) == 105.0


def test_a_sleep_lets_the_others_of_its_loop_run():
    """A script that waits for ever must not keep the server from stopping."""

    async def beside():
        clock, seen = ManualClock(auto_advance=True), []
        other = asyncio.ensure_future(asyncio.sleep(0))
        other.add_done_callback(seen.append)
        for _ in range(5):
            await clock.sleep_async(1)
        return seen

    assert asyncio.run(beside())
