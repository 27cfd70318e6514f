"""One clock for both ends: what passes on it, who turns it, and what stays real."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from tenacity.wait import wait_fixed

import smartclient
from server_reference.scripted import Answer, ErrorAnswer, ManualClock
from server_reference.scripted.ops import Body, Head, Reset, Wait
from smartclient import testing
from smartclient._clock import SystemClock
from tests.end_to_end.scripted_raw import wait_until
from tests.end_to_end.virtual_calls import APIS, Shared, gaps

ASKED = {"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}]}

both_clocks = pytest.mark.parametrize(
    "make_clock",
    [
        pytest.param(lambda: ManualClock(auto_advance=True), id="the-server-s"),
        pytest.param(testing.ManualClock, id="the-client-s"),
    ],
)


@pytest.fixture
def by_hand(request):
    """Both ends on a clock that nothing but the test turns, and blocking sleeps."""
    both = Shared(is_async=True, clock=ManualClock())
    yield both
    both.stop()


@both_clocks
def test_either_package_s_clock_serves_both_ends(shared, make_clock):
    shared.clock = make_clock()
    server = shared.serve([ErrorAnswer(429, headers={"retry-after": "30"}), Answer("Hi", ttft=2)])

    report = shared.ask().report

    assert report.duration == pytest.approx(32.0)
    assert report.stages["backoff"].duration == pytest.approx(30.0)
    assert gaps(server) == pytest.approx([30.0])


@both_clocks
def test_either_clock_is_turned_by_the_test_between_two_calls(shared, make_clock):
    shared.clock = make_clock()
    server = shared.serve()

    shared.ask()
    shared.clock.advance(3600)
    shared.ask()

    assert gaps(server) == pytest.approx([3600.0])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("seconds", [0.5, 20.0, 900.0])
def test_the_report_shows_the_time_to_the_first_token(shared, api, seconds):
    """Longer than any timeout of the client: those are of real time."""
    shared.serve(Answer("Hi", ttft=seconds))

    report = shared.ask(api, stream=True, client={"timeout": 5.0}).report

    assert report.ttft == pytest.approx(seconds)
    assert report.stages["ttft"].duration == pytest.approx(seconds)
    assert report.duration == pytest.approx(seconds)


@pytest.mark.parametrize("api", APIS)
def test_the_gaps_of_an_answer_add_up(shared, api):
    shared.serve(Answer(["a", "b", "c", "d"], ttft=2.0, itl=0.5))

    whole, stream = (shared.ask(api, stream=is_stream).report for is_stream in (False, True))

    assert [whole.duration, stream.duration] == pytest.approx([3.5, 3.5])
    assert 2.0 - 1e-6 <= stream.ttft <= 3.5 + 1e-6


def test_each_gap_is_exact_when_the_test_turns_the_clock(by_hand):
    """The server then goes on only when the client has read what came before."""
    clock = by_hand.clock
    server = by_hand.serve(Answer(["a", "b", "c"], ttft=2.0, itl=0.5))

    async def main():
        async with smartclient.AsyncClient(base_url=server.base_url, clock=clock) as client:
            opening = asyncio.ensure_future(client.messages.create(**ASKED, stream=True))
            await asyncio.to_thread(clock.wait_for_sleepers)
            clock.advance(2.0)
            async with await opening as stream:
                async for event in stream:
                    if event.type == "content_block_delta" and event.delta.text != "c":
                        await asyncio.to_thread(clock.wait_for_sleepers)
                        clock.advance(0.5)
            return client.last_report

    report = asyncio.run(main())

    assert (report.ttft, report.itl_p50, report.itl_max) == pytest.approx((2.0, 0.5, 0.5))


def test_a_blocking_client_reads_gap_by_gap_too(by_hand):
    clock = by_hand.clock
    server = by_hand.serve(Answer(["a", "b", "c"], itl=0.5))

    with smartclient.Client(base_url=server.base_url, clock=clock) as client:
        with client.messages.stream(**ASKED) as stream:
            for text in stream.text_stream:
                if text != "c":
                    clock.wait_for_sleepers()
                    clock.advance(0.5)
        report = client.last_report

    assert (report.ttft, report.itl_max) == pytest.approx((0.0, 0.5))


def test_a_blocking_call_in_a_thread_waits_for_the_test(by_hand):
    clock = by_hand.clock
    server = by_hand.serve(Answer("Hi", ttft=60.0))

    with (
        smartclient.Client(base_url=server.base_url, clock=clock) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        asked = threads.submit(client.messages.create, **ASKED)
        clock.wait_for_sleepers()
        clock.advance(59.5)
        was_done = asked.done()
        clock.advance(0.5)
        asked.result(5)

    assert not was_done
    assert client.last_report.duration == pytest.approx(60.0)


def test_calls_that_wait_at_once_wait_together_when_the_test_turns_the_clock(by_hand):
    clock = by_hand.clock
    busy = ErrorAnswer(529, headers={"retry-after": "4"})
    server = by_hand.serve([*[busy] * 10, *["Hi"] * 10])

    async def main():
        settings = {"base_url": server.base_url, "clock": clock, "wait_jitter": 0.0}
        async with smartclient.AsyncClient(**settings) as client:
            calls = [asyncio.ensure_future(client.messages.create(**ASKED)) for _ in range(10)]
            await asyncio.to_thread(clock.wait_for_sleepers, 10)
            clock.advance(4.0)
            await asyncio.gather(*calls)

    before = clock.now()
    asyncio.run(main())

    assert clock.now() - before == 4.0
    assert server.counters().requests == 20


class Leaping(testing.ManualClock):
    """Its time passes by the minute, whenever anybody looks."""

    def monotonic(self):
        self.advance(60.0)
        return super().monotonic()


def test_a_clock_that_leaps_breaks_no_connection(shared):
    """How long one is opened or kept is of real time, as are the timeouts."""
    shared.clock = Leaping()
    server = shared.serve()

    shared.ask(times=3, client={"timeout": 5.0, "keepalive": 5.0})

    assert server.counters().connections_opened == 1


def test_blocking_clients_with_different_clocks_share_connections(by_hand):
    server = by_hand.serve()
    by_hand.is_async = False

    for clock in [SystemClock(), ManualClock(0.0), testing.ManualClock(4e9)] * 2:
        by_hand.ask(client={"clock": clock})

    assert server.counters().connections_opened == 1


def test_asyncio_clients_with_different_clocks_share_connections(by_hand):
    server = by_hand.serve()

    async def main():
        for clock in [SystemClock(), ManualClock(0.0), testing.ManualClock(4e9)] * 2:
            async with smartclient.AsyncClient(base_url=server.base_url, clock=clock) as client:
                await client.messages.create(**ASKED)

    asyncio.run(main())

    assert server.counters().connections_opened == 1


class LateEnd:
    """A fault: the transfer of a stream ends later than its last event."""

    def apply(self, script, received):
        return [*script[:-1], Wait(5.0), script[-1]]


def test_a_transfer_that_ends_late_on_the_clock_keeps_its_connection(by_hand):
    clock = by_hand.clock
    server = by_hand.serve([Answer("Hi") | LateEnd(), "Hi"])

    with smartclient.Client(base_url=server.base_url, clock=clock) as client:
        with client.messages.stream(**ASKED) as stream:
            list(stream.text_stream)
        clock.wait_for_sleepers()
        clock.advance(5.0)
        client.messages.create(**ASKED)

    assert server.counters().connections_opened == 1


def test_a_server_that_sends_for_ever_is_stopped(shared):
    """Its waits take no time, but let the rest of it run."""

    async def for_ever(received):
        yield Head(200, (("content-type", "text/event-stream"),))
        while True:
            yield Wait(15.0)
            yield Body(b": ping\n\n")

    shared.clock = testing.ManualClock()
    server = shared.serve(for_ever)

    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(shared.ask, stream=True, client={"max_retries": 0})
        wait_until(lambda: shared.clock.now() > 1_700_000_100)
        server.stop()
        outcome = asked.result(10)

    assert isinstance(outcome.error, smartclient.SmartClientError)


def test_a_read_timeout_is_of_real_time(shared):
    shared.clock = ManualClock()  # the answer's wait lasts, since nobody turns it
    shared.serve(Answer("Hi", ttft=1.0))

    outcome = shared.ask(client={"timeout": 0.05, "max_retries": 0})

    assert outcome.error.kind == "read_timeout"
    assert shared.clock.sleeping <= 1


def test_a_failed_connection_is_waited_for_on_the_clock(shared):
    server = shared.serve([[Reset()], "Hi"])

    report = shared.ask(client={"wait": wait_fixed(5.0)}).report

    assert report.stages["backoff"].duration == pytest.approx(5.0)
    assert gaps(server) == pytest.approx([5.0])
