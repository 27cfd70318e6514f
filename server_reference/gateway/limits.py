"""How much is let in: bytes of a body, and requests that wait for an engine."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
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


# SDKs wait no longer than a minute.
_LONGEST_RETRY_AFTER = 60


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

    Where KV blocks are short, so that fewer run than may, the engine itself refuses those that
    are too many: its books are a step old here. A tenant with less than its share of what is
    under way is let in all the same, and the engine refuses the last of those that have more.

    Args:
        max_running: Sequences that run at once.
        max_queued: Sequences that may wait beyond those.
        max_queued_tokens: Prompt tokens that may wait; `None` sets no limit.
    """

    def __init__(
        self, *, max_running: int, max_queued: int, max_queued_tokens: int | None = None
    ) -> None:
        self._max_running = max_running
        self._max_queued = max_queued
        self._max_queued_tokens = math.inf if max_queued_tokens is None else max_queued_tokens
        self._in_flight: Counter[str] = Counter()  # sequences by tenant; no zeros
        self._last_wait = 0.0
        self._seconds_per_token: float | None = None

    @contextmanager
    def admitted(
        self, stats: EngineStats | None, *, tenant: str = "", num_sequences: int = 1
    ) -> Iterator[None]:
        """Hold a place while the block runs.

        Args:
            stats: The engine's books: how many tokens wait.
            tenant: Whose they are.
            num_sequences: How many places.

        Raises:
            ApiError: Too many sequences or tokens wait, or more are asked for than there are
                places.
        """
        places = self._max_running + self._max_queued
        if num_sequences > places:
            raise ApiError(
                "invalid",
                f"{num_sequences:,} answers are more than the {places:,} that run and wait here",
                param="n",
            )
        tokens = 0 if stats is None else stats.num_queued_tokens
        under_way = self._in_flight.total()
        is_full = under_way + num_sequences > places or tokens >= self._max_queued_tokens
        share = under_way // len(self._in_flight.keys() | {tenant})
        if is_full and self._in_flight[tenant] + num_sequences > share:
            raise self.refusal(stats)
        self._in_flight[tenant] += num_sequences
        try:
            yield
        finally:
            self._in_flight[tenant] -= num_sequences
            if not self._in_flight[tenant]:
                del self._in_flight[tenant]

    def refusal(self, stats: EngineStats | None, *, why: str | None = None) -> ApiError:
        """What a request is told before which too many wait.

        Args:
            stats: The engine's books, from which the wait is estimated.
            why: The engine's own reason, where it is another.
        """
        queued = f"{self._max_queued:,} requests wait"
        if stats is not None and stats.num_queued_tokens >= self._max_queued_tokens:
            queued = f"{stats.num_queued_tokens:,} tokens of prompts wait"
        wait = self._wait(0 if stats is None else stats.num_queued_tokens)
        return ApiError(
            "rate_limited",
            f"{why or f'{queued} already'}; send this one again in {wait} s or later",
            retry_after=wait,
        )

    def waited(self, seconds: float, *, behind: int) -> None:
        """Learn how long a request waited for its turn.

        Args:
            behind: Tokens of prompts that waited when it came.
        """
        self._last_wait = seconds
        if behind > 0:
            latest, known = seconds / behind, self._seconds_per_token
            self._seconds_per_token = latest if known is None else (latest + known) / 2

    def _wait(self, tokens: int) -> int:
        """Whole seconds until `tokens` have started, as far as the latest waits tell."""
        rate = self._seconds_per_token
        wait = self._last_wait if rate is None or not tokens else tokens * rate
        return min(max(math.ceil(wait), 1), _LONGEST_RETRY_AFTER)
