"""Call an ASGI app without a server, as a client whose every message is in view."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Client", "events"]


@dataclass
class Client:
    """One client of `app`: what it got is in its fields."""

    app: Any
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def request(self, method, path, body=b"", *, headers=(), state=None, chunks=None):
        """Send a request, and take the whole reply in."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        parts = [body] if chunks is None else list(chunks)

        async def receive():
            if parts:
                part = parts.pop(0)
                return {"type": "http.request", "body": part, "more_body": bool(parts)}
            await self.gone.wait()
            return {"type": "http.disconnect"}

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in dict(headers).items()],
            "state": state or {},
        }
        await self.app(scope, receive, self._take)
        return self

    async def _take(self, message):
        if message["type"] == "http.response.start":
            assert self.status is None, "a reply started twice"
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")

    def json(self):
        return json.loads(self.body)


def events(stream: bytes) -> list[tuple[str | None, Any]]:
    """The events of a stream: name and data; a comment has the name `:`."""
    found: list[tuple[str | None, Any]] = []
    for block in stream.decode().split("\n\n"):
        if block.startswith(":"):
            found.append((":", block[1:].strip()))
        elif block:
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            data = lines["data"]
            found.append((lines.get("event"), data if data == "[DONE]" else json.loads(data)))
    return found
