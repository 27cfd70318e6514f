"""Event loops, threads and processes come and go: one client serves them all and leaves nothing.

The reports behind it: openai-python#1254 and pydantic-ai#748 ("Event loop is closed" in the
second `asyncio.run`), pydantic-ai PR#6905 (the sync API in a running loop), skyvern PR#6405
(calls that block the loop), openllmetry PR#4394 (`aclose` is looked for where there is
`close`), openai-python#1776 and #2629 (results and errors that do not pickle),
openai-python#1181 and svix-webhooks#2456 (a client for each call), vllm#25697 and
inspect_ai#2203 (a stream whose events are taken in tasks of their own).
"""

from __future__ import annotations

import asyncio
import builtins
import pickle
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import anthropic
import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer
from smartclient import AsyncClient, Client, pool_stats

ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "Hi"}],
}
SLOW = Answer(text="one two three four", itl=10.0)


def _loop(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "asyncio":
        return asyncio.new_event_loop
    uvloop = pytest.importorskip("uvloop")
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    return _loop(request.param)


@pytest.fixture(params=["1.1", "2", "1.1-tls", "2-tls"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A scripted server, and what a client of it is told."""
    version, _, tls = request.param.partition("-")
    with server_reference.scripted("Hello there", tls=bool(tls) or None) as server:
        options: dict[str, Any] = {"base_url": server.base_url, "api_key": "k"}
        yield server, options | {"http_version": version, "ca_file": server.ca_file}


def run(main: Any, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Any:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


async def ask(client: Any) -> str:
    message = await client.messages.create(**ASKED)
    text: str = message.content[0].text
    return text


# Loops


def test_one_client_serves_many_runs(new_loop, served):
    """The second run used to fail, and the third to work again."""
    server, options = served
    client = AsyncClient(**options)

    assert [run(ask(client), new_loop) for _ in range(4)] == ["Hello there"] * 4

    server.settle(patience=5.0, until=lambda: pool_stats().open == 0)
    assert pool_stats().open == 0
    assert server.counters().streams_open == 0


@pytest.mark.sdk
def test_a_wrapped_client_serves_many_runs(new_loop):
    with server_reference.scripted("Hello there") as server:
        sdk = anthropic.AsyncAnthropic(base_url=server.base_url, api_key="k", max_retries=0)
        client = smartclient.wrap(sdk)
        assert [run(ask(client), new_loop) for _ in range(3)] == ["Hello there"] * 3


def test_streams_left_in_every_way_leave_nothing_on_either_loop(new_loop, served):
    server, options = served

    async def main() -> None:
        client = AsyncClient(**options)
        streams = [await client.messages.create(stream=True, **ASKED) for _ in range(4)]
        async for _ in streams[0]:
            pass
        await anext(streams[1])
        await streams[1].aclose()
        await anext(streams[2])
        del streams[2:]
        await client.close()
        assert (pool_stats().active, pool_stats().streams) == (0, 0)

    run(main(), new_loop)

    server.settle(patience=5.0)
    assert server.counters().streams_open == 0


def test_each_event_may_be_taken_by_a_task_of_its_own(new_loop, served):
    """With a limit of its own: "exit cancel scope in a different task" was the answer."""
    _, options = served

    async def main() -> str:
        async with AsyncClient(**options) as client:
            begin = client.messages.create(stream=True, **ASKED)
            stream = await asyncio.create_task(begin)
            taken = []
            with suppress(StopAsyncIteration):
                while True:
                    taken.append(await asyncio.wait_for(anext(stream), 10.0))
            await asyncio.create_task(stream.aclose())
        deltas = [event.delta for event in taken if event.type == "content_block_delta"]
        return "".join(delta.text for delta in deltas)

    assert run(main(), new_loop) == "Hello there"


def test_loops_in_threads_share_one_client(new_loop):
    with server_reference.scripted("Hello there") as server:
        client = AsyncClient(base_url=server.base_url, api_key="k")
        with ThreadPoolExecutor(8) as threads:
            texts = list(threads.map(lambda _: run(ask(client), new_loop), range(24)))

    assert texts == ["Hello there"] * 24


def test_the_sync_client_works_inside_a_running_loop(served):
    _, options = served

    async def main() -> str:
        with Client(**options) as client:
            return str(client.messages.create(**ASKED).content[0].text)

    assert asyncio.run(main()) == "Hello there"


def test_nothing_blocks_the_loop(served, monkeypatch):
    """Not the look-up, nor the list of authorities, nor a file, nor a sleep."""
    server, options = served
    blocked: list[str] = []

    def watched(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def watching(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == in_loop:
                blocked.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, watching, raising=False)

    async def main() -> None:
        options["base_url"] = server.base_url.replace("127.0.0.1", "localhost")
        client = AsyncClient(**options)
        for owner, name in _BLOCKING:
            watched(owner, name)
        await ask(client)
        stream = await client.messages.create(stream=True, **ASKED)
        async for _ in stream:
            pass
        await client.close()

    in_loop = threading.get_ident()
    asyncio.run(main())

    assert blocked == []


_BLOCKING = [
    (socket, "getaddrinfo"),
    (socket, "create_connection"),
    (ssl.SSLContext, "load_verify_locations"),
    (ssl.SSLContext, "load_default_certs"),
    (builtins, "open"),
    (time, "sleep"),
]


@pytest.mark.parametrize("name", ["close", "aclose"])
def test_both_names_close_a_client_and_a_stream(name):
    async def main(base_url: str) -> None:
        client = AsyncClient(base_url=base_url, api_key="k")
        stream = await client.messages.create(stream=True, **ASKED)
        answers = client.messages.stream(**ASKED)
        await getattr(stream, name)()
        await getattr(stream, name)()
        assert hasattr(answers, "aclose") or hasattr(answers, "__aexit__")
        await getattr(client, name)()
        await getattr(client, name)()
        with pytest.raises(RuntimeError, match="this client is closed"):
            await ask(client)

    with server_reference.scripted("Hello there") as server:
        asyncio.run(main(server.base_url))


# Threads


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_client_is_closed_in_bounded_time_while_fifty_threads_read(version):
    with server_reference.scripted(SLOW) as server:
        client = Client(base_url=server.base_url, api_key="k", http_version=version)
        begun = threading.Semaphore(0)

        def read() -> str:
            stream = client.messages.create(stream=True, **ASKED)
            next(stream)
            begun.release()
            with pytest.raises(smartclient.SmartClientError):
                list(stream)
            return "ended"

        with ThreadPoolExecutor(50) as threads:
            reading = [threads.submit(read) for _ in range(50)]
            for _ in reading:
                assert begun.acquire(timeout=10)
            started = time.monotonic()
            client.close()
            client.close()
            assert time.monotonic() - started < 2.5
            assert {one.result(timeout=10) for one in reading} == {"ended"}

        stats = pool_stats()
        assert (stats.active, stats.streams, stats.queued) == (0, 0, 0)


def test_twenty_clients_made_and_dropped_share_one_connection(served):
    server, options = served

    for _ in range(20):
        Client(**options).messages.create(**ASKED)

    assert server.counters().connections_opened == 1


# Processes


_LEFT = """
import asyncio, sys
from smartclient import AsyncClient, Client
kind, version, base_url = sys.argv[1:]
given = dict(base_url=base_url, api_key="k", http_version=version)
asked = dict(model="m", max_tokens=64, stream=True, messages=[{"role": "user", "content": "Hi"}])
if kind == "blocking":
    client = Client(**given)
    stream = client.messages.create(**asked)
    next(stream)
else:
    client = AsyncClient(**given)
    async def main():
        global stream
        stream = await client.messages.create(**asked)
        await anext(stream)
    asyncio.run(main())
"""


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_the_interpreter_ends_with_open_streams_at_once_and_says_nothing(kind, version):
    with server_reference.scripted(SLOW) as server:
        ended = subprocess.run(
            [sys.executable, "-W", "always", "-c", _LEFT, kind, version, server.base_url],
            capture_output=True,
            timeout=20,
        )
        server.settle(patience=5.0)
        left = server.counters().streams_open

    assert (ended.returncode, ended.stderr, ended.stdout) == (0, b"", b"")
    assert left == 0


def test_a_whole_answer_goes_through_a_pickle():
    with server_reference.scripted("Hello there") as server:
        message = Client(base_url=server.base_url, api_key="k").messages.create(**ASKED)

    again = pickle.loads(pickle.dumps(message))

    assert again.to_dict() == message.to_dict()
    assert again.content[0].text == "Hello there"
