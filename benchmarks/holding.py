"""What clients keep open, and what it costs them: scenarios, each in a process of its own.

Each prints how many calls it made once it is done; the server counts connections.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .answering import answer
from .replies import messages, stream_text

__all__ = ["PAUSE", "SCENARIOS"]

PAUSE = 6.0
"""Seconds between two calls: the SDKs keep an idle connection for 5."""

_SIZE = 20  # text events of a stream


def _openai(url: str) -> Any:
    import openai

    import smartclient

    return smartclient.wrap(openai.OpenAI(base_url=f"{url}/v1", api_key="none"))


def _call(client: Any, number: int) -> None:
    reply = client.chat.completions.create(model="m", messages=messages(number))
    assert f"{number:07}" in reply.choices[0].message.content


def streams(url: str) -> int:
    """Ten streams of a wrapped OpenAI client, one after another, read to their end."""
    client = _openai(url)
    for number in range(10):
        chunks = client.chat.completions.create(
            model="burst", max_tokens=_SIZE, messages=messages(number), stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text == stream_text(number, _SIZE)
    return 10


def apart(url: str) -> int:
    """Three calls of a wrapped OpenAI client, 6 s apart."""
    client = _openai(url)
    for number in range(3):
        if number:
            time.sleep(PAUSE)
        _call(client, number)
    return 3


def dropped(url: str) -> int:
    """A call each of twenty clients of ours that are made and dropped."""
    import smartclient

    for number in range(20):
        _call(smartclient.Client(provider="openai", base_url=f"{url}/v1", api_key="none"), number)
    return 20


def dropped_openai(url: str) -> int:
    """The same of wrapped OpenAI clients."""
    for number in range(20):
        _call(_openai(url), number)
    return 20


SCENARIOS: dict[str, Callable[[str], int]] = {
    "10 openai streams": streams,
    f"3 openai calls {PAUSE:.0f} s apart": apart,
    "20 clients made and dropped": dropped,
    "20 openai clients made and dropped": dropped_openai,
}


async def _hold(url: str) -> None:
    """Open as many more streams as each question says; answer with the memory that is used."""
    import smartclient

    loop = asyncio.get_running_loop()
    client = smartclient.AsyncClient(
        provider="openai", base_url=f"{url}/v1", api_key="none", max_connections=100_000
    )
    held: list[Any] = []

    async def open_one(number: int) -> None:
        stream = await client.chat.completions.create(
            model="held", max_tokens=_SIZE, messages=messages(number), stream=True
        )
        await anext(stream)  # the role; the first text is on its way or here
        assert (await anext(stream)).choices[0].delta.content
        held.append(stream)

    async def open_more(count: int) -> int:
        for number in range(count):
            await open_one(len(held) + number)
        gc.collect()
        return _resident()

    def ask(count: int) -> int:
        return asyncio.run_coroutine_threadsafe(open_more(count), loop).result()

    await loop.run_in_executor(None, answer, ask)
    await client.close()


def _resident() -> int:
    """Bytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if sys.argv[2] == "held":
        asyncio.run(_hold(sys.argv[1]))
    else:
        answer(partial(SCENARIOS[sys.argv[2]], sys.argv[1]))
