"""What a reply's connection is, for those who look at `response.extensions["network_stream"]`."""

from __future__ import annotations

from typing import Any

__all__ = ["NetworkStream"]


class NetworkStream:
    """Answers questions about a connection; it cannot be read, written or closed from here.

    Args:
        carrier: Its socket, and the TLS on it or `None`.
    """

    def __init__(self, carrier: tuple[Any, Any]) -> None:
        self._socket, self._tls = carrier

    def get_extra_info(self, name: str) -> Any:
        """`client_addr`, `server_addr`, `socket` or `ssl_object`; `None` for what is not known."""
        match name:
            case "socket":
                return self._socket
            case "ssl_object":
                return self._tls
            case "client_addr" | "server_addr":
                end = "getsockname" if name == "client_addr" else "getpeername"
                try:
                    return getattr(self._socket, end)()
                except OSError:  # closed since
                    return None
            case _:
                return None
