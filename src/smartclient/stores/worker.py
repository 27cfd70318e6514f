"""Operations of a store that blocks, for async code: in a thread, whoever is cancelled.

A thread cannot be stopped. So a caller who is cancelled leaves its operation behind: a
settlement is done all the same, and what a reservation took is given back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._latch import Latch
from .operations import Operation, Reserved, Settle

__all__ = ["Worker"]


class _Task:
    """One operation and what came of it; either its caller or the thread leaves first."""

    __slots__ = ("_lock", "answer", "done", "error", "is_done", "is_left", "operation")

    def __init__(self, operation: Operation) -> None:
        self.operation, self.done = operation, Latch()
        self.answer: Any = None
        self.error: BaseException | None = None
        self.is_done = self.is_left = False
        self._lock = threading.Lock()

    @property
    def took(self) -> bool:
        """Whether it is a reservation that holds something now."""
        return isinstance(self.answer, Reserved) and self.answer.short is None

    def finish(self) -> bool:
        """Whether the caller is still there to see it."""
        with self._lock:
            self.is_done = True
            return not self.is_left

    def leave(self) -> bool:
        """Whether the thread was done, so that it cannot undo it any more."""
        with self._lock:
            self.is_left = True
            return self.is_done


class Worker:
    """Threads of one store.

    Args:
        do: Does an operation, by blocking, in bounded time.
        undo: Gives back what a reservation may have taken.
        threads: How many operations run at once.
    """

    def __init__(
        self,
        do: Callable[[Operation], Any],
        undo: Callable[[Any], None],
        *,
        threads: int,
    ) -> None:
        self._do, self._undo, self._threads = do, undo, threads
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    async def do(self, operation: Operation) -> Any:
        """Have it done, by awaiting under asyncio or trio."""
        task = _Task(operation)
        self._submit(self._work, task)
        try:
            await task.done.wait_async()
        except BaseException:
            if task.leave() and task.took:
                self._submit(self._undo, operation)
            raise
        if task.error is not None:
            try:
                raise task.error
            finally:
                task.error = None  # its traceback holds this frame
        return task.answer

    def close(self) -> None:
        """End the threads once they have done what they were given."""
        pool, self._pool = self._pool, None
        if pool is not None and pool[0] == os.getpid():
            pool[1].shutdown()

    def _work(self, task: _Task) -> None:
        if task.is_left and not isinstance(task.operation, Settle):
            return
        try:
            task.answer = self._do(task.operation)
        except BaseException as error:
            task.error = error
        if not task.finish() and task.took:
            self._undo(task.operation)
        task.done.set()

    def _submit(self, work: Callable[[Any], None], subject: Any) -> None:
        try:
            self._executor().submit(work, subject)
        except RuntimeError:  # the interpreter ends, and starts no threads
            work(subject)

    def _executor(self) -> ThreadPoolExecutor:
        pid = os.getpid()
        pool = self._pool
        if pool is None or pool[0] != pid:  # a forked child has none of its parent's threads
            # Two threads may come here at once: the pool that loses ends with its work.
            made = ThreadPoolExecutor(self._threads, thread_name_prefix="smartclient-store")
            pool = self._pool = (pid, made)
        return pool[1]
