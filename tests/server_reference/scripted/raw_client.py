"""A client by hand: it does exactly what a test tells it, right or wrong."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from server_reference.scripted.server import ScriptedServer

__all__ = ["CHAT", "KEY", "RawClient", "chat"]

KEY = "sk-raw-0123456789"
CHAT = "/v1/chat/completions"


def chat(text: str = "hi", **more: Any) -> bytes:
    """A request's body."""
    return json.dumps({"messages": [{"role": "user", "content": text}], **more}).encode()


class RawClient:
    """One connection at a time, kept until `close`, `reset` or `leave`."""

    def __init__(self, server: ScriptedServer, **headers: str) -> None:
        self._address = ("127.0.0.1", server.port)
        self._headers = {"authorization": f"Bearer {KEY}", "user-agent": "raw"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        self._left: list[socket.socket] = []
        self._sock: socket.socket | None = None

    def send(self, body: bytes = b"", target: str = CHAT, **headers: str) -> None:
        """A POST, over the open connection or a new one."""
        if self._sock is None:
            self._sock = socket.create_connection(self._address, timeout=10)
        fields = self._headers | {name.replace("_", "-"): text for name, text in headers.items()}
        lines = [f"POST {target} HTTP/1.1", "host: a", f"content-length: {len(body)}"]
        lines += [f"{name}: {text}" for name, text in fields.items()]
        self._sock.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def read(self, until: bytes | None = None) -> bytes:
        """The reply: to its end, to the end of the connection, or until something came."""
        assert self._sock is not None
        seen = b""
        while not (until in seen if until is not None else _is_whole(seen)):
            try:
                data = self._sock.recv(65_536 if until is None else 1024)
            except ConnectionResetError:
                data = b""
            if not data:
                self.close()
                return seen
            seen += data
        return seen

    def ask(self, body: bytes | None = None, target: str = CHAT, **headers: str) -> bytes:
        """A whole exchange."""
        self.send(chat() if body is None else body, target, **headers)
        return self.read()

    def close(self) -> None:
        """Close the connection, if one is open; the next request opens another."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def reset(self) -> None:
        """Close it with RST."""
        assert self._sock is not None
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def leave(self) -> None:
        """Keep it open, and never use it again."""
        assert self._sock is not None
        self._left.append(self._sock)
        self._sock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        for sock in self._left:
            sock.close()


def _is_whole(seen: bytes) -> bool:
    head, mark, body = seen.partition(b"\r\n\r\n")
    if not mark:
        return False
    fields: Mapping[bytes, bytes] = dict(
        line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:]
    )
    if fields.get(b"transfer-encoding") == b"chunked":
        return body.endswith(b"0\r\n\r\n")
    return len(body) >= int(fields.get(b"content-length", b"0"))
