"""One who counts what calls use, in a process of its own: ours, and others beside it.

`python -m benchmarks.budget_peers PEER WHERE`, where the second is a URL of Redis or a file.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from time import perf_counter, process_time, time

from .answering import answer

__all__ = ["IN_FLIGHT", "PEERS", "storm"]

IN_FLIGHT = 100
_COST = 60


def incrby(url: str) -> Callable[[int], None]:
    """The least that can be done: a counter without a limit."""
    import redis

    client = redis.Redis.from_url(url)

    def run(number: int) -> None:
        for _ in range(number):
            client.incrby("app", _COST)

    return run


def incrby_async(url: str) -> Callable[[int], None]:
    from redis import asyncio as redis

    async def run(number: int) -> None:
        pool = redis.BlockingConnectionPool.from_url(url, max_connections=16, timeout=60)
        client = redis.Redis(connection_pool=pool)

        async def some() -> None:
            for _ in range(number // IN_FLIGHT):
                await client.incrby("app", _COST)

        await asyncio.gather(*[some() for _ in range(IN_FLIGHT)])
        await pool.disconnect()

    return lambda number: asyncio.run(run(number))


def limits(url: str) -> Callable[[int], None]:
    """The package `limits`: one limit in a fixed window, taken from or refused."""
    from limits import RateLimitItemPerHour
    from limits.storage import RedisStorage
    from limits.strategies import FixedWindowRateLimiter

    limiter, item = FixedWindowRateLimiter(RedisStorage(url)), RateLimitItemPerHour(10**9)

    def run(number: int) -> None:
        for _ in range(number):
            assert limiter.hit(item, "app", cost=_COST)

    return run


def limits_nested(url: str) -> Callable[[int], None]:
    """Two of its limits, which it can only take from one after the other."""
    from limits import RateLimitItemPerHour
    from limits.storage import RedisStorage
    from limits.strategies import FixedWindowRateLimiter

    limiter, item = FixedWindowRateLimiter(RedisStorage(url)), RateLimitItemPerHour(10**9)

    def run(number: int) -> None:
        for _ in range(number):
            assert limiter.hit(item, "app", cost=_COST)
            assert limiter.hit(item, "user", cost=_COST)

    return run


def smartclient_redis(url: str, *names: str) -> Callable[[int], None]:
    from smartclient.stores import RedisStore

    return _ours(RedisStore(url, prefix="bench"), *names)


def smartclient_redis_nested(url: str) -> Callable[[int], None]:
    return smartclient_redis(url, "app", "user")


def smartclient_redis_async(url: str) -> Callable[[int], None]:
    from smartclient.stores import Account, Amount, RedisStore, Reserve

    store, app = RedisStore(url, prefix="bench", timeout=60.0), Account("app", tokens=10**15)

    async def run(number: int) -> None:
        async def some() -> None:
            for _ in range(number // IN_FLIGHT):
                reserve = Reserve((app,), Amount(tokens=_COST), time())
                assert (await store.do_async(reserve)).short is None

        await asyncio.gather(*[some() for _ in range(IN_FLIGHT)])

    return lambda number: asyncio.run(run(number))


def smartclient_sqlite(path: str) -> Callable[[int], None]:
    from smartclient.stores import SQLiteStore

    return _ours(SQLiteStore(path))


def _ours(store: object, *names: str) -> Callable[[int], None]:
    from smartclient.stores import Account, Amount, Reserve

    accounts = tuple(Account(name, tokens=10**15) for name in names or ("app",))
    amount = Amount(tokens=_COST)

    def run(number: int) -> None:
        for _ in range(number):
            assert store.do(Reserve(accounts, amount, time())).short is None  # type: ignore[attr-defined]

    return run


def storm(where: str, number: int, limit: int) -> int:
    """Reserve one token `number` times, all at once; how often there was room."""
    from smartclient.stores import Account, Amount, RedisStore, Reserve, SQLiteStore

    is_redis = where.startswith("redis://")
    store = RedisStore(where, timeout=60.0) if is_redis else SQLiteStore(where, timeout=60.0)
    shared = Account("storm", tokens=limit)

    async def run() -> int:
        asked = [
            store.do_async(Reserve((shared,), Amount(tokens=1), time())) for _ in range(number)
        ]
        return sum(answer.short is None for answer in await asyncio.gather(*asked))

    return asyncio.run(run())


PEERS = {
    "incrby": incrby,
    "incrby, async": incrby_async,
    "limits": limits,
    "limits, nested": limits_nested,
    "redis": smartclient_redis,
    "redis, nested": smartclient_redis_nested,
    "redis, async": smartclient_redis_async,
    "sqlite": smartclient_sqlite,
}


def main(peer: str, where: str) -> None:
    """Answer each question: so many reservations, or a storm of them."""
    run = PEERS[peer](where)

    def do(number: int, limit: int | None = None) -> object:
        if limit is not None:
            start = perf_counter()
            return storm(where, number, limit), perf_counter() - start
        before = process_time()
        run(number)
        return process_time() - before

    answer(do)


if __name__ == "__main__":
    main(*sys.argv[1:])
