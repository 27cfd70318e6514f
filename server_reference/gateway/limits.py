"""How much is let in: bytes of a body, and requests that wait for an engine."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.types import Receive

from ..api.errors import ApiError
from ..core import EngineStats

__all__ = ["MAX_BODY_BYTES", "Admission", "DisconnectedError", "drain", "read_body"]

MAX_BODY_BYTES = 32 * 2**20

# Silence within a body after which its sender is taken for gone.
_SILENCE_SECONDS = 60.0

# A refused body is read on, so that its sender gets to see the refusal, but not for ever.
_DRAINED_BODIES = 8
_DRAIN_SECONDS = 30.0


class DisconnectedError(Exception):
    """The client went away before its body was complete."""


async def read_body(
    receive: Receive,
    headers: Mapping[str, str],
    *,
    limit: int,
    silence: float = _SILENCE_SECONDS,
) -> bytes:
    """The whole body, at most `limit` bytes of it.

    Raises:
        ApiError: It has more, or says so; or nothing came for `silence` seconds.
        DisconnectedError: It never became complete.
    """
    declared = headers.get("content-length", "")
    # `int` takes 4,300 digits at most.
    too_large = declared.isdecimal() and (len(declared.lstrip("0")) > 18 or int(declared) > limit)
    body, has_more = bytearray(), True
    while has_more and not too_large:
        try:
            async with asyncio.timeout(silence):
                message = await receive()
        except TimeoutError:
            raise _incomplete(len(body), silence) from None
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
        too_large = len(body) > limit
    if not too_large:
        return bytes(body)
    if has_more:
        await drain(receive, limit)
    raise ApiError(
        "too_large",
        f"the body has more than {limit:,} bytes; shorten it or raise max_body_bytes",
    )


def _incomplete(received: int, silence: float) -> ApiError:
    return ApiError(
        "timed_out",
        f"nothing came for {silence:g} s after {received:,} bytes of the body; send it again",
    )


async def drain(receive: Receive, limit: int) -> None:
    """Read a body that nobody wants, within bounds."""
    left = limit * _DRAINED_BODIES
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


class Admission:
    """Refuses requests when too many wait already, as far as can be known in front.

    What comes in a burst the engine itself refuses: its books are a step old here.

    Args:
        max_running: Sequences that run at once.
        max_queued: Sequences that may wait beyond those.
    """

    def __init__(self, *, max_running: int, max_queued: int) -> None:
        self._max_running = max_running
        self._max_queued = max_queued
        self._in_flight = 0
        self._last_wait = 0.0

    @contextmanager
    def admitted(self, stats: EngineStats | None) -> Iterator[None]:
        """Hold a place while the block runs.

        Args:
            stats: The engine's books: when its KV blocks are short, fewer run than may,
                and the rest wait.

        Raises:
            ApiError: `max_queued` sequences wait.
        """
        queued = 0 if stats is None else stats.num_queued
        if queued >= self._max_queued or self._in_flight >= self._max_running + self._max_queued:
            raise self.refusal()
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def refusal(self) -> ApiError:
        """What a request is told before which `max_queued` wait."""
        return ApiError(
            "rate_limited",
            f"{self._max_queued} requests wait already; send this one again later",
            retry_after=self._retry_after(),
        )

    def waited(self, seconds: float) -> None:
        """Learn how long a request waited for its turn."""
        self._last_wait = seconds

    def _retry_after(self) -> int:
        return min(max(math.ceil(self._last_wait), 1), 60)
