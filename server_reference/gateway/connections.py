"""hypercorn's connections, given back as soon as their clients have closed them.

hypercorn 0.18 keeps the socket of an idle connection that its client has closed until
`keep_alive_timeout` is over: clients that come and go soon use up the process's descriptors
(pgjones/hypercorn#241). To be deleted with a release that closes them.
"""

from __future__ import annotations

from hypercorn.asyncio import run
from hypercorn.asyncio.tcp_server import TCPServer

__all__ = ["Connection", "close_with_clients"]


class Connection(TCPServer):
    """One connection, which is not waited for when nobody is at its other end."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()

    async def _idle_timeout(self) -> None:
        if not self.reader.at_eof():  # a reply may end after its reader has left
            await super()._idle_timeout()


def close_with_clients() -> None:
    """Make every hypercorn server of this process use `Connection`; again does nothing."""
    run.TCPServer = Connection  # type: ignore[attr-defined]  # no setting does it
