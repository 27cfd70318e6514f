"""Our own clients, in the shape of the providers' SDKs.

`Client` and `AsyncClient` differ in who waits; their methods stand in `_resources.py`, what
is sent in `_request.py`, how a reply is judged in `_verdict.py`.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from ._call import Reply, Trace
from ._clock import under_trio
from ._params import split
from ._request import MAX_BODY, Session
from ._resources import AsyncChat, AsyncMessages, AsyncResponses, Chat, Messages, Responses
from ._settings import Settings, net_options, settings_of
from ._stream import AsyncStream, Stream
from ._verdict import decoded, not_events, success
from .net.secret import hidden
from .report import CallReport
from .transports.driver import AsyncPerformer, Performer

__all__ = ["AsyncClient", "Client", "Provider", "last_report"]

Provider = Literal["anthropic", "openai"]


class Client:
    """Calls a provider, or any server that speaks its API.

    Args:
        provider: Whose API: `anthropic` has `.messages`, `openai` has `.chat.completions`
            and `.responses`.
        base_url: Where, in the form the provider's SDK takes; `None` reads
            `ANTHROPIC_BASE_URL` or `OPENAI_BASE_URL`, then takes the provider's own.
        api_key: `None` reads `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`. No key is sent when
            there is none and the address is not the provider's own.
        settings: How calls are made.
        options: Fields of `Settings`, put in their place.

    Raises:
        ValueError: A key, a URL or a setting that cannot be.
        TypeError: A setting that does not exist.
    """

    def __init__(
        self,
        *,
        provider: Provider = "anthropic",
        base_url: str | None = None,
        api_key: str | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        api_key = hidden(api_key)  # first of all, so that no frame of an error shows it
        from .net.blocking import Connections  # sockets, not needed to import

        self._session = Session(provider, base_url, api_key, settings_of(settings, options))
        chosen = self._session.pipeline.settings
        self._connections = Connections(net_options(chosen), chosen.clock)
        self.messages = Messages(self)
        self.chat = Chat(self)
        self.responses = Responses(self)

    @property
    def last_report(self) -> CallReport | None:
        """Of the call whose body ended last."""
        return self._session.pipeline.last_report

    def prewarm(self, connections: int = 1) -> int:
        """Open connections before the first call needs them, so that it does not wait for them.

        Args:
            connections: How many are to lie idle; over HTTP/2 one is enough for all calls.

        Returns:
            How many were opened.

        Raises:
            ExchangeError: One could not be opened.
        """
        return self._connections.prewarm(self._session.no_call(), connections)

    def close(self) -> None:
        """Cut this client's streams and give its connections back; safe to call twice."""
        self._performer(Trace(started=0.0)).run(self._session.pipeline.finish())
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _performer(self, trace: Trace) -> Performer:
        pipeline = self._session.pipeline
        return Performer(self._connections, trace, pipeline.clock, pipeline.leftovers)

    def _start(self, path: str, params: Any, *required: str) -> Stream[Any]:
        reply, _ = self._send(path, params, required)
        if reply.handle.intake.is_events:
            return Stream(reply)
        reply.handle.begin()
        error = not_events(reply)
        reply.handle.close()
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    def _fetch(self, path: str, params: Any, *required: str, kind: Any = None) -> Any:
        reply, performer = self._send(path, params, required)
        return decoded(reply, performer.read(reply, MAX_BODY), kind)

    def _send(self, path: str, params: Any, required: tuple[str, ...]) -> tuple[Reply, Performer]:
        call = self._session.call(path, *split(params, *required))
        performer = self._performer(call.trace)
        reply = performer.run(self._session.pipeline.flow(call))
        if reply.status >= 300:
            reply.handle.close()
        return success(reply), performer


class AsyncClient:
    """Calls a provider, or any server that speaks its API, from asyncio.

    Takes what `Client` takes; its methods are awaited. One client serves every event loop.

    Raises:
        ValueError: A key, a URL or a setting that cannot be.
        TypeError: A setting that does not exist.
    """

    def __init__(
        self,
        *,
        provider: Provider = "anthropic",
        base_url: str | None = None,
        api_key: str | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        api_key = hidden(api_key)  # first of all, so that no frame of an error shows it
        from .net.aio import AsyncConnections  # loads asyncio

        self._session = Session(provider, base_url, api_key, settings_of(settings, options))
        chosen = self._session.pipeline.settings
        self._connections = AsyncConnections(net_options(chosen), chosen.clock)
        self.messages = AsyncMessages(self)
        self.chat = AsyncChat(self)
        self.responses = AsyncResponses(self)

    @property
    def last_report(self) -> CallReport | None:
        """Of the call whose body ended last."""
        return self._session.pipeline.last_report

    async def prewarm(self, connections: int = 1) -> int:
        """Open connections before the first call needs them, so that it does not wait for them.

        Args:
            connections: How many are to lie idle; over HTTP/2 one is enough for all calls.

        Returns:
            How many were opened.

        Raises:
            ExchangeError: One could not be opened.
        """
        return await self._connections.prewarm(self._session.no_call(), connections)

    async def close(self) -> None:
        """Cut this client's streams and give its connections back; safe to call twice."""
        await self._performer(Trace(started=0.0)).run(self._session.pipeline.finish())
        if not under_trio():  # where no call was possible, and asyncio cannot be asked
            await self._connections.close()

    aclose = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _performer(self, trace: Trace) -> AsyncPerformer:
        pipeline = self._session.pipeline
        return AsyncPerformer(self._connections, trace, pipeline.clock, pipeline.leftovers)

    async def _start(self, path: str, params: Any, *required: str) -> AsyncStream[Any]:
        reply, _ = await self._send(path, params, required)
        if reply.handle.intake.is_events:
            return AsyncStream(reply)
        await reply.handle.begin()
        error = not_events(reply)
        await reply.handle.close()
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    async def _fetch(self, path: str, params: Any, *required: str, kind: Any = None) -> Any:
        reply, performer = await self._send(path, params, required)
        return decoded(reply, await performer.read(reply, MAX_BODY), kind)

    async def _send(
        self, path: str, params: Any, required: tuple[str, ...]
    ) -> tuple[Reply, AsyncPerformer]:
        if under_trio():
            raise RuntimeError(
                "AsyncClient runs on asyncio, and this is trio; use Client in a worker thread, "
                "or wrap() an SDK's async client, which keeps its own transport under trio"
            )
        call = self._session.call(path, *split(params, *required))
        performer = self._performer(call.trace)
        reply = await performer.run(self._session.pipeline.flow(call))
        if reply.status >= 300:
            await reply.handle.close()
        return success(reply), performer


def last_report(client: Any) -> CallReport | None:
    """The newest complete report of `client`; `None` before its first call has ended.

    Args:
        client: A `Client` or `AsyncClient`, an SDK's client after `wrap`, or an HTTP client
            that we made, such as `httpx_client()`, or an SDK's client over it.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(client, (Client, AsyncClient)):
        return client.last_report
    from ._wrap import report_of  # with the transports of both families

    return report_of(client)
