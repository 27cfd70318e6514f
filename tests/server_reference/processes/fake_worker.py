"""A worker process whose engine counts instead of computing, and breaks when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

from server_reference.core import (
    EngineStats,
    GenerateRequest,
    Grammar,
    SequenceUpdate,
    StageTimes,
    StepRecord,
)
from server_reference.processes.compiling import Compiling
from server_reference.processes.frames import (
    FrameBuffer,
    Hello,
    Loading,
    Ready,
    StartFailed,
    frame,
    to_engine,
)
from server_reference.processes.worker import Channel, Worker, watch

__all__ = ["DIE", "GARBLE", "HANG", "RAISE", "REFUSE", "SLOW", "CountingEngine", "FakeGrammars"]

RAISE, DIE, HANG, REFUSE, GARBLE, SLOW = range(1001, 1007)
"""First prompt tokens that make a step raise, the process die or be stopped, `add` refuse,
or a step send what is no frame or take longer than the tests' silence.
"""


class FakeGrammars:
    """Compiles once `may_go`, in the order of `compiled`; what is in `kept` it has already."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.compiled: list[str] = []
        self.kept: set[str] = set()

    def has(self, grammar: Grammar) -> bool:
        return grammar.source in self.kept

    def compile(self, grammar: Grammar) -> None:
        assert self.may_go.wait(30)
        self.compiled.append(grammar.source)
        if grammar.source == "bad":
            raise ValueError("it is bad")
        if grammar.source == "worse":
            raise BaseException("it panicked")  # as the binding's own class is none of Exception


class CountingEngine:
    """Every step adds one digit to every sequence."""

    capacity = 100

    def __init__(self, pace: float = 0.001, connection: socket.socket | None = None) -> None:
        self._pace = pace
        self._connection = connection
        self._running: dict[str, GenerateRequest] = {}
        self._made: dict[str, int] = {}
        self._steps = 0
        self.failed_steps = 0
        self.grammars = FakeGrammars()

    @property
    def has_work(self) -> bool:
        return bool(self._running)

    def add(self, request: GenerateRequest) -> None:
        if request.prompt_token_ids[0] == REFUSE:
            raise ValueError("the prompt has 200 tokens, one sequence may have 100")
        self._running[request.id] = request
        self._made[request.id] = 0

    def abort(self, id: str) -> None:
        self._running.pop(id, None)

    def step(self) -> list[SequenceUpdate]:
        time.sleep(self._pace)
        self._steps += 1
        try:
            updates = [self._advance(request) for request in list(self._running.values())]
        except FloatingPointError as error:
            self.failed_steps += 1
            failed, self._running = self._running, {}
            reason = f"the step failed ({type(error).__name__})"
            return [SequenceUpdate(id=id, finish_reason="error", error=reason) for id in failed]
        self.failed_steps = 0
        return updates

    def _advance(self, request: GenerateRequest) -> SequenceUpdate:
        match request.prompt_token_ids[0]:
            case 1001:
                raise FloatingPointError("told to")
            case 1002:
                os._exit(9)
            case 1003:
                os.kill(os.getpid(), signal.SIGSTOP)
            case 1005 if self._connection is not None:
                self._connection.sendall(b"\x00\x00\x00\x03{}!")
            case 1006:
                time.sleep(0.8)
        made = self._made[request.id] = self._made[request.id] + 1
        is_last = made >= request.params.max_tokens
        if is_last:
            del self._running[request.id]
        return SequenceUpdate(
            id=request.id,
            text=str(made % 10),
            num_output_tokens=made,
            num_cached_tokens=0,
            times=StageTimes(queue=0.0, prefill=0.001),
            finish_reason="length" if is_last else None,
        )

    def explain(self, last: int) -> list[StepRecord]:
        numbers = range(1, self._steps + 1)[-last:]
        return [StepRecord(number=n, at=float(n), duration=0.5) for n in numbers]

    def stats(self) -> EngineStats:
        return EngineStats(
            num_running=len(self._running),
            num_queued=0,
            num_blocks=8,
            num_free_blocks=8 - len(self._running),
            num_cached_blocks=0,
            steps=self._steps,
            preemptions=0,
            prefix_tokens_queried=0,
            prefix_tokens_hit=0,
        )


def main(descriptor: int) -> int:
    frames = FrameBuffer()
    with socket.socket(fileno=descriptor) as connection:
        (body,) = frames.feed(connection.recv(1 << 16))
        hello = to_engine(body)
        assert isinstance(hello, Hello)
        connection.sendall(frame(Loading("counting to ten")))
        if hello.config.model == "broken":
            connection.sendall(frame(StartFailed("the file is truncated")))
            return 1
        if hello.config.model == "crashing":
            return 3
        if hello.config.model == "garbling":
            connection.sendall(b"HTTP/1.1 200 OK")
        engine = CountingEngine(connection=connection)
        connection.sendall(frame(Ready(engine.capacity, engine.stats())))
        channel = Channel(connection)
        watch(channel, beat=0.05)
        return Worker(channel, engine, Compiling(engine.grammars)).run()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
