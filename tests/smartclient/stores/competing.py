"""One of several processes that want the same tokens: `python competing.py WHERE NUMBER LIMIT`.

It reserves them one by one and all at once when its input says so, settles half of what it
got, and prints how many that were.
"""

from __future__ import annotations

import asyncio
import os
import sys

from smartclient.stores import Account, Amount, Booking, RedisStore, Reserve, Settle, SQLiteStore

ONE, AT = Amount(tokens=1), 1_790_000_000.0


async def compete(store, number, limit):
    shared = Account("app", tokens=limit), Account("user", tokens=limit)
    spent = tuple(Booking(one, ONE, ONE) for one in shared)

    async def take(turn):
        id = f"{os.getpid()}-{turn}"
        if (await store.do_async(Reserve(shared, ONE, AT, id))).short is not None:
            return 0
        if turn % 2:
            await store.do_async(Settle(id, spent, AT))
        return 1

    return sum(await asyncio.gather(*map(take, range(number))))


def main(where, number, limit):
    is_redis = where.startswith("redis://")
    store = RedisStore(where, timeout=60.0) if is_redis else SQLiteStore(where, timeout=60.0)
    print("ready", flush=True)
    sys.stdin.readline()
    print(asyncio.run(compete(store, int(number), int(limit))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
