"""Many processes and threads take no more than there is, also while Redis is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from smartclient.stores import StoreError
from smartclient.stores.redis import RedisStore
from smartclient.stores.sqlite import SQLiteStore
from tests.layers import ROOT
from tests.smartclient.stores import competing
from tests.smartclient.stores.contract import account, read, reserve
from tests.smartclient.stores.redis_server import RedisServer

both_stores = pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("redis", marks=pytest.mark.redis)]
)
KINDS = {"redis": RedisStore, "sqlite": SQLiteStore}


@pytest.fixture
def where(kind, tmp_path, request):
    """A path, or the URL of a Redis that is empty."""
    if kind == "sqlite":
        return str(tmp_path / "budgets.db")
    return request.getfixturevalue("own_redis").url


def granted(where, *, processes, each, limit):
    """How many tokens each process got, when all ask at once."""
    command = [sys.executable, competing.__file__, where, str(each), str(limit)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        running = [
            stack.enter_context(subprocess.Popen(command, env=environment, **pipes))
            for _ in range(processes)
        ]
        for process in running:
            assert process.stdout.readline() == "ready\n"
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        return [int(process.stdout.readline()) for process in running]


def used(kind, where):
    store = KINDS[kind](where)
    found = [one.spent.tokens + one.held.tokens for one in read(store, account(), account("user"))]
    store.close()
    return found


@both_stores
def test_processes_together_take_no_more_than_there_is(kind, where):
    got = granted(where, processes=4, each=100, limit=250)

    assert sum(got) == 250
    assert used(kind, where) == [250, 250]


@pytest.mark.long
@both_stores
def test_ten_thousand_reservations_of_eight_processes(kind, where):
    got = granted(where, processes=8, each=1250, limit=7000)

    assert sum(got) == 7000
    assert used(kind, where) == [7000, 7000]


class Taking(threading.Thread):
    """Reserves one token after the other, whatever happens, until it was answered so often."""

    def __init__(self, store, answers):
        super().__init__()
        self.store, self.answers, self.got, self.errors = store, answers, 0, []

    def run(self):
        deadline = time.monotonic() + 60
        while self.answers and time.monotonic() < deadline:
            try:
                self.got += self.store.do(reserve(1, account(tokens=250))).short is None
            except StoreError as error:
                self.errors.append(error)
            else:
                self.answers -= 1


@pytest.mark.redis
def test_a_redis_that_is_killed_and_keeps_its_writes_loses_no_count(shared_redis, tmp_path):
    """What was held for an answer that nobody got is given back: exactly the rest is held."""
    server = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    try:
        store = RedisStore(server.url, timeout=5.0)
        threads = [Taking(store, answers=100) for _ in range(4)]
        for thread in threads:
            thread.start()
        while sum(thread.got for thread in threads) < 60:
            time.sleep(0.001)

        server.kill()
        server.start()
        for thread in threads:
            thread.join()
        store.close()

        got = sum(thread.got for thread in threads)
        assert any(thread.errors for thread in threads)
        assert 60 <= got <= 250
        assert read(store, account())[0].held.tokens == got
    finally:
        server.stop()
