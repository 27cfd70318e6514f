"""A redis-server for the tests of this folder: one for all, or one for a test that breaks it."""

from __future__ import annotations

from itertools import count

import pytest

from smartclient.stores.redis import RedisStore
from tests.smartclient.stores import redis_server

_NUMBERS = count()


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory):
    if not redis_server.is_there():
        pytest.skip("redis-server is not installed (Debian: apt install redis-server)")
    server = redis_server.RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def own_redis(shared_redis, tmp_path):
    """One that the test may kill."""
    server = redis_server.RedisServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def prefix():
    """Keys of a test's own."""
    return f"test{next(_NUMBERS)}"


@pytest.fixture
def store(shared_redis, prefix):
    store = RedisStore(shared_redis.url, prefix=prefix)
    yield store
    store.close()
