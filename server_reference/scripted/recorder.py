"""Records a real server: passes each request on, and each reply back as it comes.

What comes is read by a task of its own, so that a client which closes early (the OpenAI SDK does
after `[DONE]`) loses nothing of the recording.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from .. import credentials
from .compile import json_reply
from .ops import Body, End, Fin, Head, Op, Reset
from .recording import Ending, Exchange, Recording, Reply, Request, redacted_writes
from .request import Received
from .upstream import Upstream, UpstreamError

__all__ = ["Recorder"]

_ABANDONED_SECONDS = 5.0
_ENDINGS: dict[type[Op], Ending] = {End: "end", Fin: "fin", Reset: "reset"}


class Recorder:
    """Answers as the upstream does, and writes down what was asked and answered.

    A rule's `then` takes it: `scripted(Recorder("https://api.example", "calls.json"))`. The
    file is written anew after each exchange, without secrets.

    Args:
        upstream: Base URL, as a client would be given it (without `/v1`).
        path: Of the recording. One that exists is replaced.
        ca_file: An authority to trust in place of the system's.
        timeout: Longest silence of the upstream, in seconds.
        now: Seconds on any clock.

    Raises:
        ValueError: `upstream` is no base URL, or `path` is a folder.
    """

    def __init__(
        self,
        upstream: str,
        path: str | Path,
        *,
        ca_file: str | None = None,
        timeout: float = 600.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstream = Upstream(upstream, ca_file=ca_file, timeout=timeout)
        self._path = Path(path)
        if self._path.is_dir():
            raise ValueError(f"{path} is a folder; name the file to record to")
        self._now = now
        self._exchanges: dict[int, Exchange] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def recording(self) -> Recording:
        """What was recorded so far, in the order in which it was asked."""
        exchanges = [one for _, one in sorted(self._exchanges.items())]
        return Recording(self._upstream.base_url, tuple(exchanges))

    async def __call__(self, received: Received) -> AsyncGenerator[Op, None]:
        came: asyncio.Queue[Op | None] = asyncio.Queue()
        task = asyncio.ensure_future(self._read(received, came))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while (op := await came.get()) is not None:
                yield op
            await task  # what went wrong with the file is not kept quiet
        finally:
            if not task.done():  # the client has gone; its end is worth a little patience
                asyncio.get_running_loop().call_later(_ABANDONED_SECONDS, task.cancel)

    async def _read(self, received: Received, came: asyncio.Queue[Op | None]) -> None:
        notes = _Notes(received, self._now)
        try:
            async with contextlib.aclosing(self._upstream.ask(received)) as ops:
                async for op in ops:
                    notes.add(op)
                    if type(op) in _ENDINGS:
                        self._keep(received.number, notes)  # before the client can know
                    came.put_nowait(op)
        except UpstreamError as error:
            for op in _unreachable(error):
                came.put_nowait(op)
        finally:
            came.put_nowait(None)
            if notes.head is not None and received.number not in self._exchanges:
                self._keep(received.number, notes)

    def _keep(self, number: int, notes: _Notes) -> None:
        self._exchanges[number] = notes.exchange()
        self.recording.save(self._path)


class _Notes:
    """One exchange as it happens."""

    def __init__(self, received: Received, now: Callable[[], float]) -> None:
        self._received = received
        self._now = now
        self._last_at = now()
        self._head_after = 0.0
        self._writes: list[tuple[float, bytes]] = []
        self._ending: Ending = "unfinished"
        self._ended_after = 0.0
        self.head: Head | None = None

    def add(self, op: Op) -> None:
        at = self._now()
        after, self._last_at = at - self._last_at, at
        if isinstance(op, Head):
            self.head, self._head_after = op, after
        elif isinstance(op, Body):
            self._writes.append((after, op.data))
        else:
            self._ending, self._ended_after = _ENDINGS[type(op)], after

    def exchange(self) -> Exchange:
        """All of it, without secrets: neither the request's nor those that the reply sets."""
        assert self.head is not None
        head, received = self.head, self._received
        secrets = credentials.secrets_in([*received.headers, *head.fields], received.target)
        writes = redacted_writes(self._writes, secrets)
        shorter = sum(len(data) for _, data in self._writes) - sum(len(one.data) for one in writes)
        return Exchange(
            Request.of(received),
            Reply(
                status=head.status,
                reason=head.reason,
                headers=credentials.redact_headers(head.fields, secrets),
                after=round(self._head_after, 6),
                framing=head.framing,
                length=None if head.length is None else max(0, head.length - shorter),
                writes=tuple(writes),
                ending=self._ending,
                ended_after=round(self._ended_after, 6),
            ),
        )


def _unreachable(error: UpstreamError) -> list[Op]:
    said = {"error": {"type": "upstream_error", "message": f"nothing was recorded: {error}"}}
    return json_reply(said, status=502, headers=(("x-should-retry", "false"),))
