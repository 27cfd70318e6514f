from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from server_reference.scripted.ops import Body, End, Head
from server_reference.scripted.playing import each

OPS = [Head(200), Body(b"a"), End()]


async def live():
    for op in OPS:
        yield op


async def later(script):
    return script


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: OPS, id="list"),
        pytest.param(live, id="live"),
        pytest.param(lambda: later(OPS), id="awaited"),
        pytest.param(lambda: later(live()), id="awaited-live"),
    ],
)
def test_every_form_gives_its_operations(make):
    async def scenario():
        return [op async for op in each(make(), lambda: None)]

    assert asyncio.run(scenario()) == OPS


def test_what_a_live_script_has_said_leaves_before_it_is_waited_for():
    seen = []

    async def said():
        for name in "ab":
            seen.append(name)
            yield Body(name.encode())

    async def scenario():
        note = seen.append
        async for op in each(said(), lambda: note("flush")):
            note(op)

    asyncio.run(scenario())

    assert seen == ["a", Body(b"a"), "flush", "b", Body(b"b"), "flush"]


def test_a_live_script_is_told_that_it_is_over():
    seen = []

    async def endless():
        try:
            while True:
                yield Body(b"x")
        finally:
            seen.append("closed")

    async def scenario():
        async with aclosing(each(endless(), lambda: None)) as ops:
            await anext(ops)

    asyncio.run(scenario())

    assert seen == ["closed"]
