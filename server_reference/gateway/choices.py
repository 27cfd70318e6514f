"""Several streams as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

__all__ = ["interleaved"]

T = TypeVar("T")


async def interleaved(
    streams: Sequence[AsyncGenerator[T, None]],
) -> AsyncGenerator[tuple[int, T], None]:
    """What `streams` yield, as it comes, each with the number of its stream.

    The first exception of one is raised; closing this closes all of them.
    """
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for item in only:
                yield 0, item
        return
    queue: asyncio.Queue[tuple[int, T] | Exception | None] = asyncio.Queue()

    async def read(number: int, stream: AsyncGenerator[T, None]) -> None:
        try:
            async with aclosing(stream):
                async for item in stream:
                    queue.put_nowait((number, item))
        except Exception as error:  # raised where the streams are read
            queue.put_nowait(error)
        else:
            queue.put_nowait(None)

    readers = [asyncio.create_task(read(*numbered)) for numbered in enumerate(streams)]
    num_open = len(readers)
    try:
        while num_open:
            match await queue.get():
                case None:
                    num_open -= 1
                case Exception() as error:
                    raise error
                case (number, item):
                    yield number, item
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
