"""Paths through `smartclient.policies`, with a driver that is played."""

from __future__ import annotations

from collections.abc import Callable

from smartclient._flow import exchange
from smartclient.policies.retry import Retry
from smartclient.testing import OVERLOADED, ManualClock, a_call, a_reply, play

__all__ = ["retry"]


def retry() -> Callable[[], object]:
    call = a_call()
    busy, ok = a_reply(529, call=call, retry_after="2"), a_reply(200, call=call)
    policy = Retry(clock=ManualClock(), wait_jitter=0.0)

    def step() -> None:
        answers = [busy, OVERLOADED, None, None, ok, None]
        reply, asked = play(policy.flow(call, exchange), answers)
        assert reply is ok
        assert len(asked) == 6

    return step
