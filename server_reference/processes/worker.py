"""The engine's own process: takes requests from a socket, steps, sends what each step made.

Run as `python -m server_reference.processes.worker FD` by `process.py`, which sets the
environment (thread count, OpenMP wait policy) before torch is imported here. The process
lives as long as its socket: when the front goes away, so does it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import Protocol

from ..config import EngineConfig
from ..core import EngineStats, GenerateRequest, SequenceUpdate, StepRecord
from .compiling import Compiling, Grammars
from .frames import (
    Beat,
    Explain,
    Explained,
    FrameBuffer,
    FromEngine,
    Hello,
    Loading,
    Ready,
    StartFailed,
    Stepped,
    Stop,
    ToEngine,
    Work,
    frame,
    to_engine,
)

__all__ = ["Channel", "Steps", "Worker", "main", "watch"]

_BEAT = 2.0
_MAX_FAILED_STEPS = 3
_RECEIVE_BYTES = 1 << 20


class Steps(Protocol):
    """What the loop needs of an engine."""

    @property
    def capacity(self) -> int: ...
    @property
    def has_work(self) -> bool: ...
    @property
    def failed_steps(self) -> int: ...
    @property
    def grammars(self) -> Grammars: ...
    @property
    def notes(self) -> list[str]: ...
    def add(self, request: GenerateRequest) -> None: ...
    def abort(self, id: str) -> None: ...
    def step(self) -> list[SequenceUpdate]: ...
    def stats(self) -> EngineStats: ...
    def explain(self, last: int) -> list[StepRecord]: ...


class Channel:
    """The socket to the front, on which the loop and the watcher's beats do not mix."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._sending = threading.Lock()
        self._beat = frame(Beat())

    def send(self, message: FromEngine) -> None:
        data = frame(message)
        with self._sending:
            self.connection.sendall(data)

    def beat(self) -> None:
        """Show life, unless something is being sent, which shows it too."""
        if self._sending.acquire(blocking=False):
            try:
                self.connection.sendall(self._beat)
            finally:
                self._sending.release()


class Worker:
    """The loop: drain the socket, step, send; block on the socket when there is no work.

    After `_MAX_FAILED_STEPS` failed ones in a row the engine is taken for broken.

    Args:
        channel: Connected to the front; blocking.
        engine: What is stepped.
        compiling: Where requests with grammars go first.
    """

    def __init__(self, channel: Channel, engine: Steps, compiling: Compiling) -> None:
        self._channel = channel
        self._engine = engine
        self._compiling = compiling
        self._frames = FrameBuffer()
        self._poll = select.poll()
        self._poll.register(channel.connection, select.POLLIN)
        self._poll.register(compiling.descriptor, select.POLLIN)
        self._updates: list[SequenceUpdate] = []

    def run(self) -> int:
        """Serve until the front hangs up or says stop; return the exit status."""
        while self._receive():
            if self._engine.has_work:
                self._updates += self._engine.step()
            updates, self._updates = self._updates, []
            self._channel.send(Stepped(updates, self._engine.stats()))
            if self._engine.failed_steps >= _MAX_FAILED_STEPS:
                return 1
        return 0

    def _receive(self) -> bool:
        """Take in all that has come; wait for it only when idle. False: time to end."""
        connection = self._channel.connection.fileno()
        ready = self._poll.poll(0 if self._engine.has_work else None)
        while connection in dict(ready):
            data = self._channel.connection.recv(_RECEIVE_BYTES)
            if not data:
                return False
            for body in self._frames.feed(data):
                if not self._take(to_engine(body)):
                    return False
            ready = self._poll.poll(0)
        for request, error in self._compiling.take():
            self._add(request, error)
        return True

    def _take(self, message: ToEngine) -> bool:
        if isinstance(message, Work):
            for request in message.add:
                if not self._compiling.begin(request):
                    self._add(request)
            for id in message.abort:
                self._compiling.drop(id)
                self._engine.abort(id)
        elif isinstance(message, Explain):
            self._channel.send(Explained(self._engine.explain(message.last)))
        return not isinstance(message, Stop)

    def _add(self, request: GenerateRequest, error: str | None = None) -> None:
        try:
            if error is None:
                self._engine.add(request)
        except ValueError as refusal:
            error = str(refusal)
        if error is not None:
            self._updates.append(
                SequenceUpdate(id=request.id, finish_reason="invalid", error=error)
            )


def watch(channel: Channel, *, beat: float = _BEAT) -> None:
    """Show the front life in the middle of a step or of loading, and end with it there.

    The thread sleeps in the kernel in between, so it hardly competes for the interpreter.

    Args:
        beat: Seconds between signs of life.
    """

    def wait() -> None:
        hangup = select.poll()
        hangup.register(channel.connection, 0)  # POLLHUP and POLLERR are always reported
        with suppress(OSError):  # the front hung up just now
            while not hangup.poll(beat * 1000):
                channel.beat()
        os._exit(0)

    threading.Thread(target=wait, name="watch", daemon=True).start()


def _hello(connection: socket.socket) -> EngineConfig | None:
    frames = FrameBuffer()
    while data := connection.recv(_RECEIVE_BYTES):
        for body in frames.feed(data):
            message = to_engine(body)
            if isinstance(message, Hello):
                return message.config
    return None


def _load(channel: Channel, config: EngineConfig) -> Steps:
    channel.send(Loading("importing torch"))
    import torch

    torch.set_num_threads(config.threads)
    from ..checkpoints.load import load
    from ..engine.engine import Engine

    channel.send(Loading(f"loading {config.model}"))
    engine = Engine(load(config), config)
    for note in engine.notes:
        channel.send(Loading(note))
    return engine


def _sentence(error: Exception) -> str:
    """What went wrong at start-up, on one line."""
    text = " ".join(str(error).split())
    if isinstance(error, (ValueError, OSError)) and text:
        return text
    traceback.print_exception(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def main(arguments: list[str]) -> int:
    """Serve the front at the other end of the socket whose descriptor is given."""
    # Whoever ends a group of processes means the front, which then lets requests finish.
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)
    with socket.socket(fileno=int(arguments[0])) as connection:
        config = _hello(connection)
        if config is None:
            return 0
        channel = Channel(connection)
        watch(channel)
        try:
            return _serve(channel, config)
        except ConnectionError:  # the front went away first
            return 0


def _serve(channel: Channel, config: EngineConfig) -> int:
    try:
        engine = _load(channel, config)
    except Exception as error:  # whatever it was, the front must learn of it
        channel.send(StartFailed(_sentence(error)))
        return 1
    channel.send(Ready(engine.capacity, engine.stats(), engine.notes))
    return Worker(channel, engine, Compiling(engine.grammars)).run()


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # torch takes a second to tidy up what the system frees at once
