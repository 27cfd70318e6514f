"""What a store must still be told: kept, and told by a thread when it can be reached again.

Two things may not be lost because a store is away for a while: a settlement, and giving
back what a reservation may have taken whose answer nobody got. Both can be told twice.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from .._observers import warned
from .protocol import StoreError

__all__ = ["Owed"]

T = TypeVar("T")

_FIRST, _LONGEST = 0.05, 5.0
"""Seconds between two tries of the thread: the first wait, doubled up to the longest."""


class _Kept(Generic[T]):
    """What one process owes; a forked child owes nothing of its parent's."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.items: deque[tuple[float, T]] = deque()
        self.lock, self.telling = threading.Lock(), threading.Lock()
        self.wake = threading.Event()
        self.has_thread = False


class Owed(Generic[T]):
    """Keeps what could not be told, and tells it as soon as that can be done.

    Args:
        tell: Tells one; raises `StoreError` when that cannot be done now.
        keep: Seconds after which one is given up: the store has then forgotten its id, and
            could take it for another.
        most: How many are kept; beyond that the oldest is given up.
    """

    def __init__(self, tell: Callable[[T], object], *, keep: float, most: int = 10_000) -> None:
        self._tell, self._keep, self._most = tell, keep, most
        self._kept: _Kept[T] = _Kept()

    def __len__(self) -> int:
        return len(self._mine().items)

    def add(self, item: T) -> None:
        """Keep `item`, and begin to tell it."""
        kept = self._mine()
        with kept.lock:
            kept.items.append((time.monotonic() + self._keep, item))
            dropped = len(kept.items) > self._most and kept.items.popleft()
            starts, kept.has_thread = not kept.has_thread, True
        if dropped:
            self._give_up("%d others wait for it", self._most)
        if starts:
            self._start(kept)

    def hurry(self) -> None:
        """The store was just reached: try again now."""
        kept = self._mine()
        if kept.items:
            kept.wake.set()

    def flush(self) -> bool:
        """Tell all of it now; stops at the first that cannot be told. Whether none is left."""
        kept = self._mine()
        with kept.telling:  # else what the thread tells just now would seem to be told
            while kept.items:
                deadline, item = kept.items[0]
                if time.monotonic() > deadline:
                    self._give_up("it could not be told within %g s", self._keep)
                else:
                    try:
                        self._tell(item)
                    except StoreError:
                        return False
                with kept.lock:
                    if kept.items and kept.items[0][1] is item:  # not given up meanwhile
                        kept.items.popleft()
            return True

    def _start(self, kept: _Kept[T]) -> None:
        atexit.register(self.flush)
        thread = threading.Thread(target=self._run, args=[kept], name="smartclient-owed")
        thread.daemon = True
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends: what is registered above is what is left
            kept.has_thread = False

    def _run(self, kept: _Kept[T]) -> None:
        delay = _FIRST
        while True:
            if self.flush():
                delay = _FIRST
                with kept.lock:
                    if not kept.items:
                        kept.has_thread = False
                        atexit.unregister(self.flush)
                        return
            elif kept.wake.wait(delay):
                kept.wake.clear()
            else:
                delay = min(delay * 2, _LONGEST)

    def _give_up(self, why: str, number: float) -> None:
        warned(f"a store was not told what a call came to, and never will be: {why}", number)

    def _mine(self) -> _Kept[T]:
        if self._kept.pid != os.getpid():
            self._kept = _Kept()
        return self._kept
