"""Streams that are read, broken, cancelled, dropped and timed out at random, from a seed.

What each stream suffers depends on the seed, the case and its number alone, so that a run
can be repeated. Sync streams run in threads, async ones as tasks of one loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from types import CoroutineType
from typing import Any

import anthropic
import httpx2
import openai

import server_reference
import smartclient
from server_reference.scripted import Answer, faults_at
from smartclient import pool_stats
from smartclient.net import aio, background, blocking

__all__ = ["CASES", "Case", "Result", "soak"]

AT_ONCE = 8
PATIENCE = 0.25  # seconds that a stalled stream is waited for
_ANSWER = Answer(text=" ".join(["word"] * 12), itl=0.001)
_ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
_EXPECTED = (smartclient.SmartClientError, anthropic.APIError, openai.APIError, httpx2.HTTPError)

FAULTS = {
    "reset_after": 0.04,
    "cut_after": 0.04,
    "fin_after": 0.04,
    "stall_after": 0.04,
    "error_event": 0.03,
    "late_terminator": 0.06,
    "ping_between": 0.05,
    "gzip_flushed": 0.05,
    "refused_status": {"rate": 0.03, "status": 503},
    "reset_before_reply": 0.03,
}
HTTP1_FAULTS = {"connection_close": 0.04, "fin_mid_chunk": 0.03}
HTTP2_FAULTS = {"rst_stream": 0.03, "refused_stream": 0.03, "goaway_graceful": 0.02}

WAYS = ("read", "read", "break", "break twice", "drop", "never read", "slow", "close the client")
ASYNC_WAYS = (*WAYS, "cancel", "cancel", "cancel twice", "cancel early")


@dataclass(frozen=True)
class Case:
    """Protocol, TLS, sync or async, and whose client."""

    protocol: str
    is_tls: bool
    is_async: bool
    owner: str

    def __str__(self) -> str:
        tls, kind = "tls" if self.is_tls else "plain", "async" if self.is_async else "sync"
        return f"{self.protocol}-{tls}-{kind}-{self.owner}"

    @property
    def ways(self) -> tuple[str, ...]:
        return ASYNC_WAYS if self.is_async else WAYS

    def client(self, server: Any) -> Any:
        """A client of `server`."""
        options: dict[str, Any] = {
            "http_version": "2" if self.protocol == "h2" else "1.1",
            "wait": lambda state: 0.0,
            "max_retries": 1,
            "max_connections": 6,  # fewer than streams, so that some are queued
        }
        if self.is_tls:
            options["ca_file"] = server.ca_file
        if self.owner == "own":
            kind = smartclient.AsyncClient if self.is_async else smartclient.Client
            return kind(base_url=server.base_url, api_key="k", **options)
        package, name, path = {
            "anthropic": (anthropic, "Anthropic", ""),
            "openai": (openai, "OpenAI", "/v1"),
        }[self.owner]
        kind = getattr(package, f"{'Async' if self.is_async else ''}{name}")
        options["max_retries"] = 1
        return smartclient.wrap(kind(base_url=server.base_url + path, api_key="k"), **options)

    def ask(self, client: Any) -> Any:
        """A stream, or what becomes one when it is awaited."""
        if self.owner == "openai":
            return client.chat.completions.create(stream=True, timeout=PATIENCE, **_ASKED)
        return client.messages.create(max_tokens=64, stream=True, timeout=PATIENCE, **_ASKED)


CASES = [
    Case(*parts)
    for parts in product(("h1", "h2"), (False, True), (False, True), ("own", "openai", "anthropic"))
]


@dataclass
class Result:
    """What a soak came to.

    Attributes:
        outcomes: How many streams ended how.
        unexpected: Errors that no fault explains.
        left: What is in use though nothing should be.
        opened: Connections that were opened, as the client counts.
        early: Streams that were left before their head, perhaps while connecting.
        counters: The server's.
        objects: Objects of ours that are alive after each third, when nothing is idle.
        memory: Resident bytes after each third.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    left: dict[str, Any] = field(default_factory=dict)
    opened: int = 0
    early: int = 0
    counters: Any = None
    objects: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


def soak(case: Case, *, streams: int, seed: int) -> Result:
    """Run `streams` streams of `case`."""
    gc.collect()
    gc.freeze()  # so that only what the streams made is collected: the rest is large
    try:
        return _soak(case, streams, seed)
    finally:
        gc.unfreeze()


def _soak(case: Case, streams: int, seed: int) -> Result:
    result = Result()
    faults = FAULTS | (HTTP2_FAULTS if case.protocol == "h2" else HTTP1_FAULTS)
    rates = faults_at(faults, seed=seed)
    config: dict[str, Any] = {"tls": case.is_tls or None, "journal_entries": 50}
    if case.protocol == "h2" and not case.is_async:
        background._Running.get()  # the loop in the background stays once it is there
    descriptors, threads = _descriptors(), set(threading.enumerate())
    before = pool_stats()
    with server_reference.scripted(_ANSWER, faults=[rates], seed=seed, **config) as server:
        if case.is_async:
            asyncio.run(_AsyncRun(case, server, result, seed).run(streams))
        else:
            _SyncRun(case, server, result, seed).run(streams)
        _await(_is_all_closed)
        _await(lambda: server.counters().connections_open == 0)
        result.counters = server.counters()
    after = pool_stats()
    result.opened = after.opened - before.opened
    names = ("open", "active", "opening", "streams", "queued")
    result.left = {name: count for name in names if (count := getattr(after, name))}
    _await(lambda: _descriptors() <= descriptors)
    if (more := _descriptors() - descriptors) > 0:
        result.left["descriptors"] = more
    if more := [t.name for t in set(threading.enumerate()) - threads if not _is_kept(t)]:
        result.left["threads"] = more
    return result


class _Run:
    """What the streams of one run share."""

    def __init__(self, case: Case, server: Any, result: Result, seed: int) -> None:
        self.case, self.server, self.result, self.seed = case, server, result, seed
        self.client = case.client(server)

    def chance(self, number: int) -> tuple[str, Random]:
        """What happens to a stream, and the rest of its chance."""
        random = Random(f"{self.seed} {self.case} {number}")
        return random.choice(self.case.ways), random

    def measure(self) -> None:
        gc.collect()
        self.result.objects.append(sum(map(_is_ours, gc.get_objects())))
        self.result.memory.append(_resident())

    def failed(self, way: str, error: BaseException) -> None:
        if isinstance(error, _EXPECTED):
            self.result.outcomes[f"{way}: {type(error).__name__}"] += 1
        else:
            self.result.unexpected.append(f"{way}: {error!r}")


class _SyncRun(_Run):
    def run(self, streams: int) -> None:
        third = streams // 3
        for start in range(0, 3 * third, third):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(self.one, range(start, start + third)))
            _await(_is_all_closed)
            self.measure()
        self.client.close()

    def one(self, number: int) -> None:
        way, random = self.chance(number)
        client = self.client
        try:
            if way == "close the client":
                client = self.case.client(self.server)
            self.suffer(way, random, client)
            self.result.outcomes[f"{way}: done"] += 1
        except Exception as error:
            self.failed(way, error)
        finally:
            if client is not self.client:
                client.close()

    def suffer(self, way: str, random: Random, client: Any) -> None:
        try:
            stream = self.case.ask(client)
        except Exception:
            self.result.early += 1
            raise
        if way == "never read":
            return
        left = 99 if way == "read" else random.randint(1, 6)
        for _ in stream:
            left -= 1
            if not left:
                break
            if way == "slow":
                time.sleep(0.004)
        if way == "drop":
            del stream
        elif way == "close the client":
            client.close()
        else:
            stream.close()
        if way == "break twice":
            stream.close()


class _AsyncRun(_Run):
    async def run(self, streams: int) -> None:
        third = streams // 3
        for start in range(0, 3 * third, third):
            numbers = iter(range(start, start + third))
            workers = [asyncio.create_task(self.work(numbers)) for _ in range(AT_ONCE)]
            await asyncio.gather(*workers)
            del workers
            await _until_idle()
            aio.close_idle()
            await asyncio.sleep(0.01)
            self.measure()
        await self.client.close()
        aio.close_idle()
        await asyncio.sleep(0.01)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self.result.left |= {"tasks": len(left)} if left else {}

    async def work(self, numbers: Any) -> None:
        for number in numbers:
            await self.one(number)

    async def one(self, number: int) -> None:
        way, random = self.chance(number)
        client = self.client
        try:
            if way == "close the client":
                client = self.case.client(self.server)
            task = asyncio.create_task(self.suffer(way, random, client))
            if way.startswith("cancel"):
                await asyncio.sleep(random.uniform(0, 0.002 if way == "cancel early" else 0.04))
                task.cancel()
                if way == "cancel twice":
                    await asyncio.sleep(0)
                    task.cancel()
            await task
            self.result.outcomes[f"{way}: done"] += 1
        except asyncio.CancelledError:
            self.result.outcomes[f"{way}: cancelled"] += 1
        except Exception as error:
            self.failed(way, error)
        finally:
            if client is not self.client:
                await client.close()

    async def suffer(self, way: str, random: Random, client: Any) -> None:
        stream = None
        try:
            stream = await self.case.ask(client)
        finally:
            self.result.early += stream is None
        if way == "never read":
            return
        left = 99 if way.startswith(("read", "cancel")) else random.randint(1, 6)
        async for _ in stream:
            left -= 1
            if not left:
                break
            if way == "slow":
                await asyncio.sleep(0.004)
        if way == "drop":
            del stream
        elif way == "close the client":
            await client.close()
        else:
            await stream.close()
        if way == "break twice":
            await stream.close()


def _is_all_closed() -> bool:
    """Whether no connection is left; what drains is idle, and closed, a moment later."""
    blocking.close_idle()
    return pool_stats().open == 0


async def _until_idle() -> None:
    """Wait for what was dropped, which is cut soon, and for what drains for 100 ms at most."""
    gc.collect()
    for _ in range(100):
        if not pool_stats().active:
            return
        await asyncio.sleep(0.01)


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _is_ours(one: object) -> bool:
    return str(type(one).__module__).startswith("smartclient") or isinstance(one, CoroutineType)


def _resident() -> int:
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _is_kept(thread: threading.Thread) -> bool:
    """Whether it is the background's: its loop, and where that reads lists of authorities."""
    return thread.name in ("smartclient-http2", "asyncio_0")


def _await(is_so: Any) -> None:
    end = time.monotonic() + 5.0
    while not is_so() and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
