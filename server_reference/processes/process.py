"""The front's client of an engine process: starts it, feeds it, restarts it when it dies.

Never imports torch: an engine beside Python threads is several times slower, so it has a
process of its own, started by `subprocess` with one end of a socket pair.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from ..config import EngineConfig
from ..core import EngineStats, GenerateRequest, SequenceUpdate, StepRecord
from .environment import environment
from .frames import (
    Explain,
    Explained,
    FrameBuffer,
    FrameError,
    Hello,
    Loading,
    Ready,
    StartFailed,
    Stepped,
    Stop,
    ToEngine,
    Work,
    frame,
    from_engine,
)

__all__ = ["EngineProcess", "EngineStartError", "EngineUnavailableError"]

_log = logging.getLogger(__name__)

_WORKER = (sys.executable, "-P", "-m", "server_reference.processes.worker")
_RECEIVE_BYTES = 1 << 20
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0
_TICKS = 10
_GRACE, _POLL = 2.0, 0.01


class EngineStartError(RuntimeError):
    """An engine could not be started; the message says why in one sentence."""


class EngineUnavailableError(RuntimeError):
    """No engine takes work just now: it is loading, restarting or stopped."""


class EngineProcess:
    """One engine in a process of its own.

    When the process dies, or says nothing for `silence` seconds, or what cannot be read, its
    requests end with an error, `is_ready` turns false, and it is started again with a
    growing delay.

    Args:
        config: How the engine runs.
        worker: The command to run, without the socket's descriptor.
        silence: Seconds without a word after which the process is taken for dead: it shows
            life every 2 s, also in a long step. Loading is not counted.

    Attributes:
        notes: What the engine told of its numerics and its memory when it started.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        worker: Sequence[str] = _WORKER,
        silence: float = 10.0,
    ) -> None:
        self._config = config
        self._command = tuple(worker)
        self._silence = silence
        self._link: _Link | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._capacity = 0
        self.notes: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether requests are taken now."""
        return self._link is not None

    @property
    def capacity(self) -> int:
        """Tokens that one sequence may have, prompt and output together."""
        return self._capacity

    @property
    def stats(self) -> EngineStats | None:
        """The engine's books after its latest step; `None` while it is not ready."""
        return None if self._link is None else self._link.stats

    async def start(self) -> None:
        """Start the process and wait until it has loaded its model.

        Raises:
            EngineStartError: It could not; no process is left behind.
        """
        self._link = await self._launch()
        self._supervisor = asyncio.create_task(self._supervise(self._link))

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[SequenceUpdate, None]:
        """Run one sequence; closing the generator early aborts it within one step.

        Raises:
            EngineUnavailableError: The engine is not ready.
        """
        link = self._link
        if link is None:
            raise EngineUnavailableError("the engine is not ready; try again in a few seconds")
        updates = link.open(request)
        try:
            while True:
                update = await updates.get()
                yield update
                if update.finish_reason is not None:
                    return
        finally:
            link.close(request.id)

    async def explain(self, last: int) -> list[StepRecord]:
        """What the engine remembers of its `last` steps, oldest first.

        Raises:
            EngineUnavailableError: The engine is not ready, or for as long as `silence` in
                the middle of a step: it answers between two.
        """
        link = self._link
        if link is None:
            raise EngineUnavailableError("the engine is not ready; try again in a few seconds")
        try:
            async with asyncio.timeout(self._silence):
                return await link.explain(last)
        except TimeoutError as error:
            raise EngineUnavailableError(
                f"the engine has been in one step for {self._silence:g} s; try again after it"
            ) from error

    async def stop(self) -> None:
        """End the process, within a few seconds whatever it does, and fail its requests."""
        if self._supervisor is None:
            return
        supervisor, self._supervisor = self._supervisor, None
        supervisor.cancel()
        await asyncio.wait([supervisor])
        if not supervisor.cancelled():
            supervisor.result()

    async def _launch(self) -> _Link:
        link = _Link(self._command, self._config)
        try:
            ready = await link.load()
            self._capacity, self.notes = ready.capacity, tuple(ready.notes)
        except FrameError as error:
            await link.end(reason := _unreadable(error))
            raise EngineStartError(reason) from error
        except BaseException:
            await link.end("the engine was stopped while it loaded")
            raise
        return link

    async def _supervise(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        delay = _FIRST_DELAY
        try:
            while True:
                started = loop.time()
                reason = await link.serve(self._silence)
                self._link = None
                await link.end(reason)
                if loop.time() - started > _LONGEST_DELAY:
                    delay = _FIRST_DELAY
                _log.error("%s; it is started again in %.1f s", reason, delay)
                link, delay = await self._restart(delay)
                self._link = link
        finally:
            self._link = None
            await link.end("the server is stopping")

    async def _restart(self, delay: float) -> tuple[_Link, float]:
        """Launch until it works; return the link and the next delay."""
        while True:
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LONGEST_DELAY)
            try:
                return await self._launch(), delay
            except (EngineStartError, OSError) as error:
                _log.error("%s; it is started again in %.1f s", error, delay)


@dataclass(slots=True)
class _Open:
    """A sequence that has not finished: what is to be read of it, and what came last."""

    updates: asyncio.Queue[SequenceUpdate]
    latest: SequenceUpdate


class _Link:
    """One running worker process and the socket to it."""

    def __init__(self, command: Sequence[str], config: EngineConfig) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*command, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=sys.__stderr__.fileno() if sys.__stderr__ else subprocess.DEVNULL,
                    env=environment(config),
                    start_new_session=True,  # Ctrl-C is for the front, which then stops us
                )
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        self._socket = ours
        self._hello = Hello(config)
        self._model = config.model
        self._frames = FrameBuffer()
        self._writer: asyncio.StreamWriter | None = None
        self._reader: asyncio.StreamReader | None = None
        self._open: dict[str, _Open] = {}
        self._add: dict[str, GenerateRequest] = {}
        self._abort: list[str] = []
        self._explain: deque[asyncio.Future[list[StepRecord]]] = deque()  # in order of asking
        self._flushing = False
        self._silent_ticks = 0
        self.stats: EngineStats

    async def load(self) -> Ready:
        """Wait until the engine is ready."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
        self._send(self._hello)
        while data := await self._receive():
            for body in self._frames.feed(data):
                message = from_engine(body)
                if isinstance(message, Loading):
                    _log.info(message.stage)
                elif isinstance(message, StartFailed):
                    raise EngineStartError(message.reason)
                elif isinstance(message, Ready):
                    self.stats = message.stats
                    return message
        raise EngineStartError(await self._obituary(f"while it loaded {self._model}"))

    async def serve(self, silence: float) -> str:
        """Hand out updates until the process ends or falls silent; return why in words."""
        reading = asyncio.create_task(self._read())
        self._silent_ticks = 0
        try:
            # Ticks, not a clock: after a suspended machine wakes, only one has passed.
            while self._silent_ticks < _TICKS:
                done, _ = await asyncio.wait([reading], timeout=silence / _TICKS)
                if done:
                    return await self._ending(reading)
                self._silent_ticks += 1
            return f"the engine process was silent for {silence:g} s and was ended"
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _ending(self, reading: asyncio.Task[None]) -> str:
        try:
            reading.result()
        except FrameError as error:
            return _unreadable(error)
        return await self._obituary("while it served")

    def open(self, request: GenerateRequest) -> asyncio.Queue[SequenceUpdate]:
        """Queue a sequence for the next step; its updates come in what is returned."""
        opened = _Open(asyncio.Queue(), SequenceUpdate(id=request.id))
        self._open[request.id] = opened
        self._add[request.id] = request
        self._flush_soon()
        return opened.updates

    def close(self, id: str) -> None:
        """Forget a sequence; abort it if it has not finished."""
        if self._open.pop(id, None) is None:
            return
        if self._add.pop(id, None) is None:
            self._abort.append(id)
            self._flush_soon()

    def explain(self, last: int) -> asyncio.Future[list[StepRecord]]:
        """Ask for the last steps."""
        answer = asyncio.get_running_loop().create_future()
        self._explain.append(answer)
        self._send(Explain(last))
        return answer

    async def end(self, reason: str) -> None:
        """End the process, kindly first, and fail what was under way."""
        why = f"{reason}; send the request again in a few seconds"
        for opened in self._open.values():
            last = opened.latest._replace(text="", finish_reason="error", error=why)
            opened.updates.put_nowait(last)
        self._open.clear()
        for asked in self._explain:
            if not asked.done():
                asked.set_exception(EngineUnavailableError(reason))
        if self._writer is not None and not self._writer.is_closing():
            self._send(Stop())
        if self._silent_ticks >= _TICKS or self._writer is None:
            self._process.kill()
        try:
            await self._ended(_GRACE)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            if self._writer is not None:
                self._writer.transport.abort()
            else:
                self._socket.close()

    async def _ended(self, seconds: float) -> None:
        """Wait for the process to end, at most `seconds`.

        Polled: at interpreter exit no thread may be started to wait in.
        """
        for _ in range(int(seconds / _POLL)):
            if self._process.poll() is not None:
                return
            await asyncio.sleep(_POLL)

    async def _receive(self) -> bytes:
        """What has come; empty when the process has ended."""
        assert self._reader is not None
        try:
            return await self._reader.read(_RECEIVE_BYTES)
        except ConnectionError:
            return b""

    async def _read(self) -> None:
        while data := await self._receive():
            self._silent_ticks = 0
            for body in self._frames.feed(data):
                message = from_engine(body)
                if isinstance(message, Stepped):
                    self.stats = message.stats
                    for update in message.updates:
                        self._publish(update)
                elif isinstance(message, Explained) and self._explain:
                    asked = self._explain.popleft()
                    if not asked.done():  # else whoever asked has given up
                        asked.set_result(message.steps)

    def _publish(self, update: SequenceUpdate) -> None:
        opened = self._open.get(update.id)
        if opened is None:
            return  # aborted while this step ran
        opened.updates.put_nowait(update)
        opened.latest = update
        if update.finish_reason is not None:
            del self._open[update.id]

    def _flush_soon(self) -> None:
        """Send what has gathered once per turn of the loop, in one frame."""
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        work = Work(list(self._add.values()), self._abort)
        self._add, self._abort = {}, []
        if work.add or work.abort:
            self._send(work)

    def _send(self, message: ToEngine) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame(message))

    async def _obituary(self, when: str) -> str:
        """How the process ended, its exit status included."""
        await self._ended(1.0)
        status = self._process.returncode
        if status is None:
            return f"the engine process closed its socket {when}"
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return f"the engine process ended {how} {when}; its log on stderr says more"


def _unreadable(error: FrameError) -> str:
    return f"the engine process was ended for what it sent: {error}"
