from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from server_reference.config import EngineConfig
from server_reference.core import GenerateRequest, SamplingParams
from server_reference.processes.process import (
    EngineProcess,
    EngineStartError,
    EngineUnavailableError,
)

FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))
RAISE, DIE, HANG, REFUSE, GARBLE, SLOW = range(1001, 1007)


def an_engine(model="tiny", **options):
    return EngineProcess(EngineConfig(model=model), worker=FAKE, **options)


def a_request(id="a", *, first=1, max_tokens=3):
    return GenerateRequest(
        id=id,
        tenant="t",
        prompt_token_ids=[first],
        params=SamplingParams(max_tokens=max_tokens),
    )


async def all_of(engine, request):
    return [update async for update in engine.generate(request)]


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for is in another process
            await asyncio.sleep(0.005)


def run(test):
    """Run `test(engine)` with a started engine, and stop it."""

    async def main():
        engine = an_engine(silence=0.5)
        await engine.start()
        try:
            await test(engine)
        finally:
            await engine.stop()

    asyncio.run(main())


def test_updates_come_in_order_until_the_sequence_finishes():
    async def test(engine):
        updates = await all_of(engine, a_request())

        assert "".join(update.text for update in updates) == "123"
        assert [update.finish_reason for update in updates] == [None, None, "length"]

    run(test)


def test_sequences_run_side_by_side():
    async def test(engine):
        requests = [a_request(str(i), max_tokens=5) for i in range(40)]

        outputs = await asyncio.gather(*(all_of(engine, request) for request in requests))

        assert {"".join(u.text for u in updates) for updates in outputs} == {"12345"}

    run(test)


def test_closing_the_generator_aborts_the_sequence():
    async def test(engine):
        async with aclosing(engine.generate(a_request(max_tokens=10**6))) as updates:
            await anext(updates)

        await until(lambda: engine.stats.num_running == 0)
        assert engine.stats.num_free_blocks == engine.stats.num_blocks

    run(test)


def test_cancelling_the_reader_aborts_the_sequence():
    async def test(engine):
        reader = asyncio.create_task(all_of(engine, a_request(max_tokens=10**6)))
        await until(lambda: engine.stats.num_running == 1)

        reader.cancel()

        await until(lambda: engine.stats.num_running == 0)

    run(test)


def test_steps_are_told_while_idle_and_while_sequences_run():
    async def test(engine):
        idle = await engine.explain(5)
        await all_of(engine, a_request(max_tokens=4))
        running = asyncio.create_task(all_of(engine, a_request("b", max_tokens=90)))
        told = await asyncio.gather(engine.explain(2), engine.explain(3))
        await running

        assert idle == []
        assert [len(steps) for steps in told] == [2, 3]

    run(test)


def test_steps_of_an_engine_in_a_long_step_are_not_waited_for_for_ever():
    async def test(engine):
        running = asyncio.create_task(all_of(engine, a_request(first=SLOW, max_tokens=2)))
        await until(lambda: engine.stats.num_running or engine.stats.steps == 0)
        await asyncio.sleep(0.1)  # the step of 0.8 s has begun
        with pytest.raises(EngineUnavailableError, match=r"in one step for 0\.5 s"):
            await engine.explain(1)
        await running

        assert len(await engine.explain(1)) == 1  # and the late answer is nobody's

    run(test)


def test_steps_of_a_lost_engine_are_told_to_be_lost():
    async def test(engine):
        running = asyncio.create_task(all_of(engine, a_request(first=DIE)))
        with pytest.raises(EngineUnavailableError):
            while True:
                await engine.explain(1)
        await running

    run(test)


def test_a_refused_sequence_ends_with_the_reason():
    async def test(engine):
        (update,) = await all_of(engine, a_request(first=REFUSE))

        assert update.finish_reason == "invalid"
        assert "200 tokens" in update.error

    run(test)


def test_a_step_that_raises_fails_its_sequences_and_the_engine_goes_on():
    async def test(engine):
        updates = await all_of(engine, a_request(first=RAISE))
        after = await all_of(engine, a_request("b"))

        assert updates[-1].finish_reason == "error"
        assert "FloatingPointError" in updates[-1].error
        assert after[-1].finish_reason == "length"

    run(test)


def test_three_failed_steps_in_a_row_end_the_process():
    async def test(engine):
        for id in "abc":
            await all_of(engine, a_request(id, first=RAISE))

        await until(lambda: not engine.is_ready)

    run(test)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        pytest.param(DIE, "ended with status 9", id="dies"),
        pytest.param(HANG, "silent for 0.5 s", id="falls-silent"),
        pytest.param(GARBLE, "a frame of 3 bytes is unreadable", id="sends-no-frame"),
    ],
)
def test_a_lost_engine_fails_its_requests_and_is_started_again(first, reason):
    async def test(engine):
        (*_, last) = await all_of(engine, a_request(first=first))
        assert last.finish_reason == "error"
        assert reason in last.error
        assert not engine.is_ready
        with pytest.raises(EngineUnavailableError, match="not ready"):
            await all_of(engine, a_request())

        await until(lambda: engine.is_ready)

        assert len(await all_of(engine, a_request())) == 3

    run(test)


def test_an_idle_engine_is_not_taken_for_dead():
    async def test(engine):
        await asyncio.sleep(0.8)  # longer than the silence that is allowed

        assert engine.is_ready

    run(test)


def test_an_engine_in_a_long_step_is_not_taken_for_dead():
    async def test(engine):
        (update,) = await all_of(engine, a_request(first=SLOW, max_tokens=1))

        assert update.finish_reason == "length"

    run(test)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        pytest.param("broken", "the file is truncated", id="says-why"),
        pytest.param("crashing", "ended with status 3 while it loaded crashing", id="just-dies"),
    ],
)
def test_a_start_that_fails_says_why(model, reason, caplog):
    caplog.set_level("INFO")

    with pytest.raises(EngineStartError, match=reason):
        asyncio.run(an_engine(model).start())

    assert "counting to ten" in caplog.messages


def test_a_start_that_sends_no_frame_fails_too():
    with pytest.raises(EngineStartError, match="a frame may have 268,435,456 bytes, not"):
        asyncio.run(an_engine("garbling").start())


def test_stop_fails_what_is_under_way_and_leaves_no_process():
    async def main():
        engine = an_engine()
        await engine.start()
        reader = asyncio.create_task(all_of(engine, a_request(max_tokens=10**6)))
        await until(lambda: engine.stats.num_running == 1)
        process = engine._link._process

        await engine.stop()
        await engine.stop()

        updates = await reader
        again = "send the request again in a few seconds"
        assert updates[-1].error == f"the server is stopping; {again}"
        assert updates[-1].num_output_tokens == len(updates) - 1
        return process.pid

    pid = asyncio.run(main())

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_worker_ends_when_its_front_is_killed():
    front = f"""
import asyncio, os, sys
from server_reference.config import EngineConfig
from server_reference.processes.process import EngineProcess

async def main():
    engine = EngineProcess(EngineConfig(), worker={FAKE!r})
    await engine.start()
    print(engine._link._process.pid, flush=True)
    os._exit(1)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", front], capture_output=True, check=False)

    worker = Path("/proc", done.stdout.decode().strip())

    async def gone():
        await until(lambda: not worker.exists())

    asyncio.run(gone())


def test_the_client_never_imports_torch():
    code = "import sys, server_reference.processes.process; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
