"""A scripted server and our client, blocking or asyncio, that share one clock."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any, NamedTuple

import server_reference
import smartclient
from server_reference.scripted import ManualClock, ScriptedServer

__all__ = ["APIS", "Outcome", "Shared", "gaps"]

APIS = ("messages", "chat", "responses")
"""What `Shared.ask` calls, in this order of the providers' wire formats."""


class Outcome(NamedTuple):
    """What came of a call."""

    answer: Any
    error: Exception | None
    report: smartclient.CallReport


class Shared:
    """Both ends on one clock, on which every wait of either passes at once.

    Args:
        clock: `None` makes a server's.
    """

    def __init__(self, *, is_async: bool, clock: Any = None) -> None:
        self.is_async = is_async
        self.clock = ManualClock(auto_advance=True) if clock is None else clock
        self._server: ScriptedServer | None = None

    @property
    def server(self) -> ScriptedServer:
        assert self._server is not None, "serve something first"
        return self._server

    def serve(self, rules: Any = "Hello!", **options: Any) -> ScriptedServer:
        """Start the server; `stop` ends it."""
        self._server = server_reference.scripted(rules, clock=self.clock, **options)
        return self._server

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def ask(
        self, api: str = "messages", *, client: Any = None, times: int = 1, **fields: Any
    ) -> Outcome:
        """A call by a client of its own, `times` over; what came of the last one.

        Args:
            client: Settings of the client.
            fields: Of the request, beside those that it must have.
        """
        reports: list[smartclient.CallReport] = []
        settings = {"clock": self.clock, "wait_jitter": 0.0, "on_report": reports.append}
        call = self._call_async if self.is_async else self._call
        try:
            answer, error = call(api, settings | (client or {}), times, fields), None
        except smartclient.SmartClientError as failure:
            answer, error = None, failure
        return Outcome(answer, error, reports[-1])

    def _call(self, api: str, settings: Any, times: int, fields: Any) -> Any:
        with smartclient.Client(**self._target(api), **settings) as client:
            for _ in range(times):
                answer = _resource(client, api)(**_request(api, fields))
                answer = list(answer) if fields.get("stream") else answer
            return answer

    def _call_async(self, api: str, settings: Any, times: int, fields: Any) -> Any:
        async def main() -> Any:
            async with smartclient.AsyncClient(**self._target(api), **settings) as client:
                for _ in range(times):
                    answer = await _resource(client, api)(**_request(api, fields))
                    answer = [one async for one in answer] if fields.get("stream") else answer
                return answer

        return asyncio.run(main())

    def _target(self, api: str) -> dict[str, Any]:
        url = self.server.base_url
        if api == "messages":
            return {"provider": "anthropic", "base_url": url, "api_key": "any"}
        return {"provider": "openai", "base_url": f"{url}/v1", "api_key": "any"}


def _resource(client: Any, api: str) -> Any:
    return (client.chat.completions if api == "chat" else getattr(client, api)).create


def _request(api: str, fields: dict[str, Any]) -> dict[str, Any]:
    if api == "responses":
        return {"model": "m", "input": "Hello", **fields}
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    return asked | ({"max_tokens": 8} if api == "messages" else {}) | fields


def gaps(server: ScriptedServer) -> list[float]:
    """Seconds between two requests, on the clock and as the server saw them."""
    server.settle()
    asked = [entry.received_at for entry in server.journal.entries()]
    return [later - earlier for earlier, later in pairwise(asked)]
