"""The tools for testing a policy, tested."""

from __future__ import annotations

import asyncio

import pytest
import trio

from smartclient._flow import Sleep, exchange, sleep
from smartclient.testing import ManualClock, a_call, a_reply, play


def test_a_manual_clock_moves_when_it_is_told_to():
    clock = ManualClock(100.0)

    clock.advance(5.0)
    clock.sleep(2.0)
    asyncio.run(clock.sleep_async(3.0))

    assert clock.now() == clock.monotonic() == 110.0
    assert clock.slept == [2.0, 3.0]


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_manual_clock_never_goes_back(seconds):
    with pytest.raises(ValueError, match=f"at least 0 s and finite, not {seconds}"):
        ManualClock().advance(seconds)


def test_a_wait_on_a_manual_clock_lets_the_others_of_its_loop_run():
    """Else a server that waits again and again on it could not be stopped."""

    async def beside():
        clock, seen = ManualClock(), []
        asyncio.get_running_loop().call_soon(seen.append, "ran")
        await clock.sleep_async(1.0)
        return seen

    assert asyncio.run(beside()) == ["ran"]


def test_a_manual_clock_is_slept_on_under_trio_too():
    clock = ManualClock(100.0)

    trio.run(clock.sleep_async, 3.0)

    assert clock.now() == 103.0


def test_play_answers_in_order():
    def flow():
        yield from sleep(1.0)
        return "done"

    assert play(flow(), [None]) == ("done", [Sleep(1.0)])


def test_play_raises_an_exception_into_the_flow():
    def flow():
        try:
            yield from sleep(1.0)
        except KeyError:
            return "caught"

    assert play(flow(), [KeyError("x")])[0] == "caught"


def test_play_complains_when_answers_are_missing():
    with pytest.raises(AssertionError, match=r"no answer is left for Exchange.*after 0 effects"):
        play(exchange(a_call()), [])


def test_play_complains_about_answers_that_nobody_asked_for():
    with pytest.raises(AssertionError, match="ended with 1 answers unused"):
        play(exchange(a_call()), [a_reply(), None])


def test_builders_give_the_ordinary_case():
    assert a_call().adapter.provider == "anthropic"
    assert a_call(path="/other").adapter is None
    assert a_reply(429, retry_after="7").headers.get("Retry-After") == "7"
    assert a_call(body=b"x").body == b"x"
