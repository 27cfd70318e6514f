"""A call that fails leaves nothing to the garbage collector: its body may be large.

An error has a traceback, whose frames have the call; whoever keeps such an error is kept by it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

import server_reference
from server_reference.scripted import Answer, faults_at
from smartclient import AsyncClient, Client, SmartClientError, Timeout
from smartclient._call import Call
from smartclient.net.link import Link
from smartclient.net.multiplex import Multiplex
from smartclient.net.streams import StreamConnection

ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 64,
    "stream": True,
    "messages": [{"role": "user", "content": "Hi"}],
}
ANSWER = Answer(text="one two three four")
PATIENCE = Timeout(read=0.1, first_event=0.1, idle=0.1)


def kept() -> int:
    """Calls, and asyncio connections that are closed, which something still has."""
    found: list[Any] = [o for o in gc.get_objects() if type(o) in _KINDS]
    return sum(not isinstance(one, Link) or one.is_cut for one in found)


_KINDS = (Call, Multiplex, StreamConnection)


def ask(given: dict[str, Any]) -> None:
    client = Client(**given)
    with pytest.raises(SmartClientError):
        list(client.messages.create(**ASKED))


def ask_async(given: dict[str, Any]) -> None:
    async def main() -> None:
        client = AsyncClient(**given)
        with pytest.raises(SmartClientError):
            _ = [event async for event in await client.messages.create(**ASKED)]

    asyncio.run(main())


@pytest.mark.parametrize("ask", [ask, ask_async])
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("fault", ["reset_before_reply", "reset_after", "fin_after", "stall_after"])
def test_a_failed_call_is_freed_at_once(
    ask: Callable[[dict[str, Any]], None], version: str, fault: str
) -> None:
    faults = [faults_at({fault: 1.0}, seed=1)]
    with server_reference.scripted(ANSWER, faults=faults) as server:
        gc.collect()
        before = kept()
        gc.disable()
        try:
            given = {"base_url": server.base_url, "api_key": "k", "http_version": version}
            ask({**given, "max_retries": 0, "timeout": PATIENCE})
            ended = time.monotonic() + 2.0
            while kept() > before and time.monotonic() < ended:
                time.sleep(0.01)  # the loop in the background may have a turn to go
            assert kept() <= before
        finally:
            gc.enable()
