"""The Redis store against a real redis-server: the contract of all stores, and its own."""

from __future__ import annotations

import pytest
import redis

from smartclient.stores.redis import RedisStore
from tests.smartclient.stores.contract import StoreContract

pytestmark = pytest.mark.redis


class TestByUrl(StoreContract):
    pass


class TestByClient(StoreContract):
    @pytest.fixture
    def store(self, shared_redis, prefix):
        with redis.Redis(port=shared_redis.port, decode_responses=True) as client:
            store = RedisStore(client, prefix=prefix)
            yield store
            store.close()
