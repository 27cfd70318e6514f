from __future__ import annotations

import pytest

from server_reference.api.errors import ApiError
from server_reference.gateway.routing import Router


def test_the_least_loaded_ready_replica_is_chosen(replica):
    busy, idle, down = replica, type(replica)(), type(replica)(is_ready=False)
    busy.running = 3

    assert Router([busy, down, idle]).choose() is idle


def test_without_a_ready_replica_the_caller_is_to_try_again(replica):
    replica.is_ready = False
    router = Router([replica])

    assert not router.is_ready
    with pytest.raises(ApiError) as refused:
        router.choose()
    assert refused.value.status("anthropic") == 529
    assert refused.value.status("openai") == 503
    assert refused.value.retry_after == 1
