"""One asyncio connection to a proxy, while it is being asked for a way on."""

from __future__ import annotations

import asyncio
import socket

from .._call import Origin
from .failures import BadReplyError, bare
from .link import Keep, Lane, Link
from .pool import Pool

__all__ = ["Approach"]


class Approach(Link):
    """Says and hears what a proxy's handshake needs; then another goes on with what is there."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        origin: Origin,
        pool: Pool[Link],
        keep: Keep,
    ) -> None:
        super().__init__(loop, sock, origin, pool, keep)
        self._said = b""
        self._has_ended = False

    async def send(self, data: bytes) -> None:
        """Write all of `data`.

        Raises:
            OSError: The connection broke.
        """
        transport = self._transport
        if transport is None or self._is_dead():
            raise BrokenPipeError
        if self._tls is not None:
            self._tls.encrypt(data)
            data = self._tls.pending()
        transport.write(data)
        while self._is_write_paused and self.failure is None:
            await self.wait(None)

    async def receive(self) -> bytes:
        """What has come; `b""` when the proxy has closed.

        Raises:
            OSError: The connection broke.
        """
        if self._tls is not None:
            self._decrypt(self._tls)
        while not self._said:
            if self._has_ended:
                return b""
            if isinstance(self.failure, OSError):
                raise self.failure
            await self.wait(None)
        said, self._said = self._said, b""
        return said

    def lane(self, owner: object) -> Lane:
        raise AssertionError("a connection to a proxy carries no call before it leads on")

    def evict(self, owner: object) -> None:
        """Nobody's call: whoever opens it drops it."""

    def drop(self) -> None:
        if not self.is_cut:
            self.is_cut = True
            if self._transport is not None:
                self._transport.abort()
            self.notify()

    def _take(self, data: bytes) -> None:
        self._said += data
        self.notify()

    def _end(self) -> None:
        self._has_ended = True
        self._fail(ConnectionResetError("the proxy closed"))

    def _fail(self, failure: BadReplyError | OSError) -> None:
        self.failure = self.failure or bare(failure)
        self.notify()
