"""A process that is interrupted in the middle of a streamed read: what it then says and does.

Run as a program: it prints a line when it waits, when the interrupt came, and what the next
call of the same client says; or nothing more, where nobody catches the interrupt.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import smartclient

__all__ = ["complaints"]

ASKED: dict[str, Any] = {
    "model": "slow",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "Hi"}],
}
QUICK = ASKED | {"model": "quick"}


def complaints(stderr: str) -> list[str]:
    """What is said there, but for what asyncio says of a slow machine in its debug mode."""
    return [line for line in stderr.splitlines() if not line.startswith("Executing <")]


def say(*what: object) -> None:
    print(*what, flush=True)


def read(client: smartclient.Client) -> None:
    for event in client.messages.create(stream=True, **ASKED):
        if event.type == "content_block_delta":
            say("waits")


async def read_async(client: smartclient.AsyncClient) -> None:
    async for event in await client.messages.create(stream=True, **ASKED):
        if event.type == "content_block_delta":
            say("waits")


def go_on(client: smartclient.Client) -> None:
    say(client.messages.create(**QUICK).content[0].text)
    client.close()


async def go_on_async(client: smartclient.AsyncClient) -> None:
    say((await client.messages.create(**QUICK)).content[0].text)
    await client.close()


def main(
    kind: str, then: str, http_version: Any, base_url: str, ca_file: str | None = None
) -> None:
    options: dict[str, Any] = {"base_url": base_url, "api_key": "k", "ca_file": ca_file}
    is_async = kind == "async"
    make = smartclient.AsyncClient if is_async else smartclient.Client
    client: Any = make(http_version=http_version, **options)
    try:
        asyncio.run(read_async(client)) if is_async else read(client)
    except KeyboardInterrupt:
        if then == "raise":
            raise
        say(time.monotonic())
    asyncio.run(go_on_async(client)) if is_async else go_on(client)


if __name__ == "__main__":
    main(*sys.argv[1:])
