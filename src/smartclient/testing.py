"""Test a policy without I/O: play the driver, with a clock that you turn by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, TypeVar

import msgspec

from ._call import Call, Headers, Origin, Reply, Timeout, Trace
from ._clock import SystemClock
from ._flow import Effect, Flow
from .wire import Failure, recognise

__all__ = ["OVERLOADED", "RATE_LIMITED", "ManualClock", "a_call", "a_reply", "play"]

T = TypeVar("T")

OVERLOADED = Failure(
    kind="overloaded", status=529, type="overloaded_error", message="busy", is_transient=True
)
RATE_LIMITED = Failure(
    kind="rate_limited", status=429, type="rate_limit_error", message="slow", is_transient=True
)


class ManualClock:
    """A clock that only moves when it is told to; sleeping moves it at once.

    Threads may share it, so a scripted server can be given the same object: what either end
    waits then passes at once, for both.

    Args:
        at: Unix seconds it starts at, for both of its times.

    Attributes:
        slept: Every wait so far, in seconds, of everybody who has this clock.
    """

    # The scripted server has one of its own, on which a sleep can also last until a test ends
    # it. The two packages never import each other, and a policy's test needs only this much.

    def __init__(self, at: float = 1_700_000_000.0) -> None:
        self._at = at
        self._lock = threading.Lock()
        self.slept: list[float] = []

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass.

        Raises:
            ValueError: `seconds` is negative or not finite.
        """
        if not 0 <= seconds < inf:
            raise ValueError(
                f"a clock never goes back: advance by at least 0 s and finite, not {seconds}"
            )
        with self._lock:  # adding reads and writes
            self._at += seconds

    def now(self) -> float:
        return self._at

    def monotonic(self) -> float:
        return self._at

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        self.slept.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)
        await SystemClock().sleep_async(0)  # one that waits again and again starves nobody


def a_call(
    *,
    path: str = "/v1/messages",
    payload: Mapping[str, Any] | None = None,
    body: Any = None,
    max_retries: int | None = None,
) -> Call:
    """An ordinary call; state only what matters to the test."""
    payload = {"model": "tiny", "max_tokens": 8, "messages": []} if payload is None else payload
    return Call(
        method="POST",
        origin=Origin("http", "127.0.0.1", 8000),
        target=path,
        headers=Headers([("content-type", "application/json")]),
        trace=Trace(started=0.0),
        body=msgspec.json.encode(payload) if body is None else body,
        payload=payload,
        adapter=recognise("POST", path),
        timeout=Timeout(),
        max_retries=max_retries,
    )


def a_reply(status: int = 200, *, call: Call | None = None, **headers: str) -> Reply:
    """A reply without a body; `retry_after="7"` becomes the header `retry-after`."""
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Reply(status=status, headers=Headers(fields), call=call or a_call())


def play(flow: Flow[T], answers: Iterable[Any]) -> tuple[T, list[Effect]]:
    """Run `flow`, answering its effects in order; an exception is raised into it.

    Returns:
        What the flow returned, and the effects that it asked for.

    Raises:
        AssertionError: It asked for more than there are answers, or for less.
    """
    asked: list[Effect] = []
    left = list(answers)
    try:
        effect = next(flow)
        while True:
            asked.append(effect)
            assert left, f"no answer is left for {effect!r}, after {len(asked) - 1} effects"
            answer = left.pop(0)
            is_error = isinstance(answer, BaseException)
            effect = flow.throw(answer) if is_error else flow.send(answer)
    except StopIteration as stop:
        assert not left, f"the flow ended with {len(left)} answers unused: {left!r}"
        return stop.value, asked
