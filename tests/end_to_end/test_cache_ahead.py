"""Prompts that are written once: before the first call, or by one of many that start together."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from server_reference.scripted import Answer
from smartclient.prompt_cache import CacheHints, prewarm
from tests.end_to_end.cached_calls import text_block, user

RULES = "rule by rule " * 600  # some 1,950 tokens
LONG = "rule by rule " * 2000


@pytest.mark.parametrize(("wait", "writers"), [(None, 8), (20.0, 1)])
def test_of_a_cold_fan_out_one_call_writes_if_the_others_wait_for_it(cached, wait, writers):
    hints = CacheHints(mode="full", single_flight=wait)
    one = cached(hints=hints, answer=Answer("Fine.", ttft=0.05), auto_advance=False)
    gate = threading.Barrier(8, timeout=10)

    def ask(number):
        gate.wait()
        return one.send(system=RULES, messages=[user(f"{number} is my question " * 10)]).usage

    with ThreadPoolExecutor(8) as pool:
        used = list(pool.map(ask, range(8)))

    assert sum(u.cache_creation_input_tokens > 0 for u in used) == writers


def test_tasks_of_one_loop_wait_for_each_other_too(cached):
    hints = CacheHints(mode="full", single_flight=20.0)
    one = cached(hints=hints, answer=Answer("Fine.", ttft=0.05), auto_advance=False)

    async def run():
        async with one.async_client() as client:
            said = [[user(f"{n} is my question " * 10)] for n in range(8)]
            calls = [
                client.messages.create(
                    model=one.model, max_tokens=9, system=RULES, messages=messages
                )
                for messages in said
            ]
            return await asyncio.gather(*calls)

    used = [message.usage for message in asyncio.run(run())]

    assert sum(u.cache_creation_input_tokens > 0 for u in used) == 1


@pytest.mark.parametrize("hints", ["off", "cautious", "full"])
def test_a_prewarmed_prompt_is_read_by_the_first_call(cached, hints):
    one = cached(hints=hints)
    marks = {"off": [text_block(LONG, cache_control={"type": "ephemeral"})]}
    call = {"system": marks.get(hints, LONG), "messages": [user("Hello")]}
    warm = prewarm({"model": one.model, **call})

    one.client.messages.create(**warm)
    used = one.ask(**call).usage

    assert used.cache_read > 6000


def test_a_prewarmed_response_is_read_by_the_first_call(cached):
    one = cached("responses")
    said = [{"role": "developer", "content": LONG}, user("Hello")]

    one.client.responses.create(
        **prewarm({"model": one.model, "input": said}, endpoint="openai.responses")
    )

    assert one.ask(input=said).usage.cache_read > 6000
