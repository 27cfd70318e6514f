"""Our pipeline under an httpx or httpx2 client: one adapter for both families.

The family is the module (`httpx` or `httpx2`) whose client is upgraded; neither is
imported here. Under an SDK's client, everything outside a call context (`_wrap.py` opens
one) goes to the transport that was there before. Under a client that we made ourselves
(`_http_clients.py`) every request is a call.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from types import FunctionType
from typing import Any
from weakref import WeakSet

import msgspec

from .._call import Call, Reply, Timeout, Trace
from .._clock import MOST_SECONDS, under_trio
from .._errors import ExchangeError, RefusedError
from .._pipeline import Pipeline
from ..wire import recognise
from .attempts import RETRY_COUNT, AsyncAttempts, Attempts, CallContext, call_context
from .below import Below
from .driver import AsyncConnector, AsyncPerformer, Connector, Performer
from .inner import AsyncInner, Inner, address_of, as_family, body_of, headers_of
from .refused import as_reply

__all__ = ["AsyncTransport", "CallContext", "Transport", "call_context", "family_of"]


def family_of(http_client: object) -> Any:
    """The module, `httpx` or `httpx2`, that `http_client` is a client of; else `None`."""
    for ancestor in type(http_client).__mro__:
        name = ancestor.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return sys.modules[name]
    return None


class _Adapter:
    """What the sync and the async transport share.

    Args:
        family: The module `httpx` or `httpx2`.
        inner: The transport that was there before; of a client of ours, what does the rest.
        connections: Ours, in the place of `inner`; `None` keeps `inner` below our policies.
    """

    def __init__(self, family: Any, inner: Any, pipeline: Pipeline) -> None:
        self.family, self.inner, self.pipeline = family, inner, pipeline
        self.users: WeakSet[Any] = WeakSet()  # SDK clients that share this HTTP client
        self._patch = _Patch(inner.direct if self.is_own else inner)

    @property
    def is_own(self) -> bool:
        """Whether we made the HTTP client, so that every request is a call."""
        return isinstance(self.inner, Below)

    def _context(self, request: Any) -> CallContext | None:
        """The call that `request` is of; `None`: of none."""
        context = call_context.get()
        if context is not None and context.pipeline is self.pipeline:
            return context
        if not self.is_own:
            return None
        # A call has one owner of its retries: an SDK that counts them sends again by itself.
        limit = 0 if RETRY_COUNT in request.headers else None
        return CallContext(self.pipeline, limit, self.pipeline.clock.monotonic())

    def _call(self, request: Any, context: CallContext) -> Call:
        origin, target = address_of(request)
        if origin.scheme not in _SCHEMES:
            raise ExchangeError(
                f"a request's URL must begin with http:// or https://, not {origin.scheme!r}; "
                "give the whole URL, or base_url to the client",
                kind="unsupported",
                origin=str(origin),
            )
        if origin.port > 65_535:
            raise ExchangeError(
                f"a port is at most 65535, and the request's URL has {origin.port}",
                kind="unsupported",
                origin=str(origin),
            )
        body = body_of(request)
        adapter = recognise(request.method, target.partition("?")[0])
        payload = _payload(body) if adapter is not None else None
        return Call(
            method=request.method,
            origin=origin,
            target=target,
            headers=headers_of(request),
            trace=Trace(started=context.started),
            body=body,
            payload=payload,
            adapter=adapter if payload is not None else None,
            timeout=self._timeout(request),
            max_retries=context.max_retries,
            max_event_bytes=self.pipeline.settings.max_event_bytes,
            is_renewable=context.is_prepared and context.renew is not None,
            is_prepared=context.is_prepared,
        )

    def _timeout(self, request: Any) -> Timeout:
        """The family's limits for its own stages, and ours for the others."""
        ours = self.pipeline.settings.timeout
        limits = request.extensions.get("timeout")
        if limits is None and self.is_own:
            return ours
        read = (limits or {}).get("read")
        theirs = {name: _waitable((limits or {}).get(name)) for name in _STAGES}
        if self.is_own and read != ours.read:
            # A request that was given more patience than its client has it with events too.
            theirs |= {"first_event": _longer(ours.first_event, read)}
            theirs |= {"idle": _longer(ours.idle, read)}
        return msgspec.structs.replace(ours, **theirs)

    def _is_for_inner(self, request: Any) -> bool:
        """Whether only the transport that was there before does what is asked for."""
        is_special = not _INNERS.isdisjoint(request.extensions) or "upgrade" in request.headers
        return is_special or self._patch.is_there()

    def _response(self, request: Any, reply: Reply, stream: Any) -> Any:
        return self.family.Response(
            status_code=reply.status,
            headers=[(n.encode("latin-1"), v.encode("latin-1")) for n, v in reply.headers],
            stream=stream,
            request=request,
            extensions={
                **reply.handle.extensions,
                "http_version": reply.protocol.encode("ascii"),
                "reason_phrase": reply.reason.encode("latin-1"),
            },
        )


class Transport(_Adapter):
    """Sync: what `httpx.Client` calls for each request."""

    def __init__(
        self, family: Any, inner: Any, pipeline: Pipeline, connections: Connector | None
    ) -> None:
        super().__init__(family, inner, pipeline)
        self._connections = connections

    def handle_request(self, request: Any) -> Any:
        context = self._context(request)
        if context is None:
            return self.inner.handle_request(request)
        native = None if self._is_for_inner(request) else self._connections
        connector = native or Inner(self.family, self.inner, request)
        try:
            call = self._call(request, context)
            reply = Attempts(connector, self.pipeline, context, call).send()
        except RefusedError as error:
            return as_reply(error, self.family, request)
        except ExchangeError as error:
            raise as_family(error, self.family, request) from error.__cause__
        stream = _streams(self.family)[0](reply, self.family, request, context.sdk)
        return self._response(request, reply, stream)

    def close(self) -> None:
        self._performer(Inner(self.family, self.inner, None), Trace(0.0)).run(
            self.pipeline.finish()
        )
        if self._connections is not None:
            _closed(self._connections)
        self.inner.close()

    def _performer(self, connector: Connector, trace: Trace) -> Performer:
        return Performer(connector, trace, self.pipeline.clock, self.pipeline.leftovers)

    def __enter__(self) -> Transport:
        self.inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class AsyncTransport(_Adapter):
    """Async: what `httpx.AsyncClient` calls for each request."""

    def __init__(
        self, family: Any, inner: Any, pipeline: Pipeline, connections: AsyncConnector | None
    ) -> None:
        super().__init__(family, inner, pipeline)
        self._connections = connections

    async def handle_async_request(self, request: Any) -> Any:
        context = self._context(request)
        if context is None:
            return await self.inner.handle_async_request(request)
        # Our own async connections are asyncio's; under trio the inner transport carries it.
        is_for_inner = under_trio() or self._is_for_inner(request)
        native = None if is_for_inner else self._connections
        connector = native or AsyncInner(self.family, self.inner, request)
        try:
            call = self._call(request, context)
            reply = await AsyncAttempts(connector, self.pipeline, context, call).send()
        except RefusedError as error:
            return as_reply(error, self.family, request)
        except ExchangeError as error:
            raise as_family(error, self.family, request) from error.__cause__
        stream = _streams(self.family)[1](reply, self.family, request, context.sdk)
        return self._response(request, reply, stream)

    async def aclose(self) -> None:
        performer = self._performer(AsyncInner(self.family, self.inner, None), Trace(0.0))
        await performer.run(self.pipeline.finish())
        if self._connections is not None and not under_trio():
            await _closed(self._connections)
        await self.inner.aclose()

    def _performer(self, connector: AsyncConnector, trace: Trace) -> AsyncPerformer:
        return AsyncPerformer(connector, trace, self.pipeline.clock, self.pipeline.leftovers)

    async def __aenter__(self) -> AsyncTransport:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.aclose()


class _Patch:
    """Notices a mock in the inner transport, its pool or their classes, whenever it came there."""

    def __init__(self, inner: Any) -> None:
        targets = [one for one in (inner, getattr(inner, "_pool", None)) if one is not None]
        self._places = [
            (getattr(one, "__dict__", {}), type(one), name)
            for one in targets
            for name in ("handle_request", "handle_async_request")
            if hasattr(type(one), name)
        ]

    def is_there(self) -> bool:
        return any(
            name in own or not _is_as_made(kind, getattr(kind, name))
            for own, kind, name in self._places
        )


def _is_as_made(kind: Any, method: Any) -> bool:
    """Whether `method` was defined in the package of `kind`; decorators copy its module's name."""
    if type(method) is not FunctionType:
        return False
    home: str = method.__globals__.get("__name__", "")
    package: str = kind.__module__
    return home.partition(".")[0] == package.partition(".")[0]


# Callbacks at each of its steps, and another name in the TLS handshake.
_INNERS = frozenset({"trace", "sni_hostname"})
_STAGES = ("connect", "pool", "write", "read")  # what the family's timeouts know
_SCHEMES = frozenset({"http", "https", "ws", "wss"})  # the last two for who upgrades


def _waitable(seconds: float | None) -> float | None:
    """What the system can wait for; longer, infinity too, is for ever."""
    return None if seconds is not None and seconds > MOST_SECONDS else seconds


def _longer(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def _closed(connections: Any) -> Any:
    return connections.close()


def _payload(body: Any) -> dict[str, Any] | None:
    """The JSON object in `body`, or `None`: such a call passes untouched."""
    if not isinstance(body, bytes):
        return None
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None


# Bodies as the family's streams.


class _Stream:
    def __init__(self, reply: Reply, family: Any, request: Any, sdk: str) -> None:
        self._body, self._family, self._request, self._sdk = reply.handle, family, request, sdk
        self._is_closed = False

    def _failed(self, error: ExchangeError) -> Exception:
        return as_family(error, self._family, self._request, sdk=self._sdk)

    def _check_end(self) -> None:
        """Raise when the stream ended early: its SDK would take it for whole."""
        if self._is_closed or not self._body.intake.is_cut_short:
            return
        origin = str(address_of(self._request)[0])
        early = ExchangeError(
            f"the stream of {origin} ended without its terminal event, so the answer may be cut",
            kind="closed",
            sent="all",
            origin=origin,
        )
        raise self._failed(early)


class _SyncStream(_Stream):
    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            chunk = self._body.next()
            while chunk is not None and not chunk.data:  # more of what it came to, for our taps
                chunk = self._body.next()
        except ExchangeError as error:
            raise self._failed(error) from error.__cause__
        if chunk is None:
            self._check_end()
            raise StopIteration
        data: bytes = chunk.data
        return data

    def close(self) -> None:
        self._is_closed = True
        self._body.close()


class _AsyncStream(_Stream):
    # An iterator, not a generator: one that is dropped half-read leaves nothing to finalise.
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._body.next()
            while chunk is not None and not chunk.data:  # more of what it came to, for our taps
                chunk = await self._body.next()
        except ExchangeError as error:
            raise self._failed(error) from error.__cause__
        if chunk is None:
            self._check_end()
            raise StopAsyncIteration
        data: bytes = chunk.data
        return data

    async def aclose(self) -> None:
        self._is_closed = True
        await self._body.close()


@lru_cache(maxsize=2)
def _streams(family: Any) -> tuple[Any, Any]:
    """Our two streams as classes that `family` accepts."""
    return (
        type("SyncStream", (_SyncStream, family.SyncByteStream), {}),
        type("AsyncStream", (_AsyncStream, family.AsyncByteStream), {}),
    )
