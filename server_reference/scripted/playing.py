"""A script as it is played: its operations one after another, and what one does to a connection.

Source: socket(7), SO_LINGER; RFC 8446, section 6.1 (close_notify).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

from .clock import Clock
from .ops import Fin, HalfClose, NoCloseNotify, Op, Pause, Reset, Script, Wait

__all__ = ["LiveScript", "Playable", "each", "linger", "perform"]

_LINGER_SECONDS = 0.5
_LINGER_NOT = struct.pack("ii", 1, 0)

LiveScript: TypeAlias = AsyncGenerator[Op, None]
"""Operations as they come; closed when the reply is over, whoever ended it."""

Playable: TypeAlias = Script | LiveScript | Awaitable[Script | LiveScript]


async def each(script: Playable, flush: Callable[[], None]) -> AsyncGenerator[Op, None]:
    """The operations of `script`. Close it: a live script must know that it is over.

    Args:
        flush: Called before a live script is waited for, which may take long.
    """
    ops = await script if isinstance(script, Awaitable) else script
    if isinstance(ops, AsyncGenerator):
        try:
            async with contextlib.aclosing(ops):
                async for op in ops:
                    yield op
                    flush()
        except (KeyboardInterrupt, SystemExit) as error:  # would end the server's loop
            raise RuntimeError(f"a live script raised {type(error).__name__}") from error
        return
    for op in ops:
        yield op


async def perform(
    op: Op, transport: asyncio.Transport, clock: Clock, closes: Callable[[str], None]
) -> None:
    """Wait, hang, or end the connection, as `op` says; any other operation does nothing.

    Args:
        closes: Told by whom the connection is closed, before it is.
    """
    match op:
        case Wait(seconds):
            await clock.sleep_async(seconds)
        case Pause():
            await asyncio.Event().wait()
        case Fin():
            closes("server")
            transport.close()
        case HalfClose():
            closes("server")
            _half_close(transport)
            await asyncio.Event().wait()
        case Reset():
            closes("server reset")
            _reset(transport)
        case NoCloseNotify():
            closes("server")
            transport.abort()  # TLS, if there is any, is not told
        case _:
            pass


def linger(transport: asyncio.Transport) -> None:
    """Send FIN, and read on for a while before closing.

    To close with bytes unread is to reset, which takes the last reply with it.
    Source: RFC 9112, section 9.6.
    """
    with contextlib.suppress(OSError):
        if transport.can_write_eof():
            transport.write_eof()
    asyncio.get_running_loop().call_later(_LINGER_SECONDS, transport.close)


def _reset(transport: asyncio.Transport) -> None:
    """Send RST in place of FIN."""
    with contextlib.suppress(OSError):  # the client was faster
        _socket(transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    transport.abort()


def _half_close(transport: asyncio.Transport) -> None:
    """Send FIN, under TLS without a close_notify, and keep reading."""
    with contextlib.suppress(OSError):  # the client was faster
        _socket(transport).shutdown(socket.SHUT_WR)


def _socket(transport: asyncio.Transport) -> socket.socket:
    found: socket.socket = transport.get_extra_info("socket")
    return found
