"""Addresses of names, looked up once for all who ask and kept for a while.

The system's resolver tells no time to live, so an answer is fresh for a short time and may be
used for a longer one while a new one is fetched; older answers are never used, so that a name
that moved is followed. A look-up runs in a thread of its own: the resolver cannot be
interrupted, and whoever asked may have less patience.

Source: RFC 8305, section 4 (the order of addresses); RFC 8767 (serving stale answers).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from itertools import chain, zip_longest
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from .tcp import Address

__all__ = ["FAILED", "FRESH", "RESOLVER", "STALE", "LookUp", "Resolver", "interleaved"]

FRESH = 30.0
"""Seconds for which an answer is used without a second thought."""

STALE = 300.0
"""Seconds for which it is used while another look-up is on its way."""

FAILED = 60.0
"""Seconds for which an address that could not be connected to comes last."""


class _Answer(Struct, frozen=True):
    addresses: list[Address]
    at: float


class LookUp:
    """One that is on its way; any number of threads and loops may await it."""

    __slots__ = ("_addresses", "_callbacks", "_error", "_is_done", "_lock")

    def __init__(self) -> None:
        self._addresses: list[Address] = []
        self._error: OSError | UnicodeError | None = None
        self._is_done = Event()
        self._lock = Lock()
        self._callbacks: list[Callable[[], object]] = []

    def wait(self, timeout: float | None) -> bool:
        """Whether it has ended, after at most `timeout` seconds."""
        return self._is_done.wait(timeout)

    def notify(self, callback: Callable[[], object]) -> None:
        """Call once it has ended, in whatever thread; it must neither block nor raise."""
        with self._lock:
            if not self._is_done.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def result(self) -> list[Address]:
        """The addresses, once it has ended.

        Raises:
            OSError: There are none.
            UnicodeError: That is no name.
        """
        if self._error is not None:
            # A copy for each who asks: a traceback belongs to one of them.
            raise type(self._error)(*self._error.args)
        return self._addresses

    def end(self, addresses: list[Address], error: OSError | UnicodeError | None = None) -> None:
        """Tell everybody."""
        self._addresses, self._error = addresses, error
        with self._lock:
            self._is_done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class Resolver:
    """Answers of the system's resolver; thread-safe.

    Args:
        look_up: `socket.getaddrinfo`, or what stands in for it.
        now: A monotonic clock.
    """

    def __init__(
        self, look_up: Callable[..., Iterable[Any]] | None, now: Callable[[], float]
    ) -> None:
        # Looked for at each call: tests and other libraries replace it in its module.
        self._look_up = look_up or _system
        self._now = now
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked child must."""
        self._lock = Lock()
        self._answers: dict[tuple[str, int], _Answer] = {}
        self._running: dict[tuple[str, int], LookUp] = {}
        self._failed: dict[Address, float] = {}

    def ask(self, host: str, port: int) -> list[Address] | LookUp:
        """The addresses, or the look-up that will bring them."""
        key, now = (host, port), self._now()
        with self._lock:
            answer = self._answers.get(key)
            age = STALE if answer is None else now - answer.at
            if age < FRESH:
                assert answer is not None
                return self._ordered(answer.addresses, now)
            running = self._running.get(key)
            if running is None:
                running = self._running[key] = LookUp()
                thread = Thread(target=self._run, args=(key, running), daemon=True)
                thread.name = f"look-up of {host}"
                thread.start()
            if answer is not None and age < STALE:
                return self._ordered(answer.addresses, now)
            return running

    def failed(self, address: Address) -> None:
        """Remember that it could not be connected to."""
        with self._lock:
            self._failed[address] = self._now() + FAILED

    def _ordered(self, addresses: list[Address], now: float) -> list[Address]:
        """Those that failed a short while ago at the end."""
        if not self._failed:
            return addresses
        self._failed = {address: end for address, end in self._failed.items() if end > now}
        return sorted(addresses, key=self._failed.__contains__)

    def _run(self, key: tuple[str, int], running: LookUp) -> None:
        failure: OSError | UnicodeError = OSError("no address came")
        addresses: list[Address] | None = None
        try:
            found = self._look_up(*key, type=socket.SOCK_STREAM)
            addresses = interleaved((family, address) for family, _, _, _, address in found)
        except (OSError, UnicodeError) as error:
            failure = error
        finally:  # whatever goes wrong, nobody waits for ever
            self._keep(key, addresses)
            if addresses:
                running.end(addresses)
            else:
                running.end([], failure)

    def _keep(self, key: tuple[str, int], addresses: list[Address] | None) -> None:
        with self._lock:
            self._running.pop(key, None)
            if addresses:
                now = self._now()
                # What is too old is dropped here, so that many names do not pile up.
                kept = {k: a for k, a in self._answers.items() if now - a.at < STALE}
                self._answers = {**kept, key: _Answer(addresses, now)}


def _system(*what: Any, **how: Any) -> Iterable[Any]:
    return socket.getaddrinfo(*what, **how)


def interleaved(addresses: Iterable[Address]) -> list[Address]:
    """Alternate between the families, beginning with the one that is preferred; none twice."""
    by_family: dict[int, list[Address]] = {}
    for address in dict.fromkeys(addresses):
        by_family.setdefault(address[0], []).append(address)
    return [one for one in chain(*zip_longest(*by_family.values())) if one is not None]


RESOLVER = Resolver(None, monotonic)
"""Of this process."""

os.register_at_fork(after_in_child=RESOLVER.forget)
