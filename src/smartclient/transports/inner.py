"""A transport that the user brought, as a connector under our policies, and its errors.

`family` is the module, `httpx` or `httpx2`, whose classes that transport uses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

from .._call import Call, Headers, Origin, Span, Timeline
from .._errors import ExchangeError, ExchangeKind
from ..net.options import REAL

__all__ = ["MAX_FORM", "AsyncInner", "Inner", "address_of", "as_family", "body_of", "headers_of"]


def address_of(request: Any) -> tuple[Origin, str]:
    url = request.url
    host = url.raw_host.decode("ascii")  # as it is asked for, not as it is shown
    origin = Origin(url.scheme, host, url.port or (443 if url.scheme == "https" else 80))
    return origin, url.raw_path.decode("ascii")


_CONNECTIONS = frozenset({b"content-length", b"transfer-encoding"})


def headers_of(request: Any) -> Headers:
    """The request's headers, without those that a connection adds itself."""
    return Headers(
        (name.decode("ascii"), value.decode("latin-1"))
        for name, value in request.headers.raw
        if name.lower() not in _CONNECTIONS
    )


MAX_FORM = 64 << 20


def body_of(request: Any) -> Any:
    """The request's bytes, or its stream when they were never read.

    A form of up to 64 MiB is read now: only bytes can be sent again, and with their length.
    """
    content = getattr(request, "_content", None)
    if isinstance(content, bytes):
        return content
    length = request.headers.get("content-length", "")
    if hasattr(request.stream, "__iter__") and length.isdecimal() and int(length) <= MAX_FORM:
        return request.read()
    return request.stream


# Errors, both ways.

_NAMES: dict[ExchangeKind, str] = {
    "resolve": "ConnectError",
    "connect": "ConnectError",
    "connect_timeout": "ConnectTimeout",
    "proxy": "ProxyError",
    "tls": "ConnectError",
    "certificate": "ConnectError",
    "pool_timeout": "PoolTimeout",
    "write": "WriteError",
    "write_timeout": "WriteTimeout",
    "read": "ReadError",
    "read_timeout": "ReadTimeout",
    "first_event_timeout": "ReadTimeout",
    "idle_timeout": "ReadTimeout",
    "total_timeout": "ReadTimeout",
    "closed": "RemoteProtocolError",
    "refused": "RemoteProtocolError",
    "protocol": "RemoteProtocolError",
    "limit": "RemoteProtocolError",
    "unsupported": "UnsupportedProtocol",
}


def as_family(error: ExchangeError, family: Any, request: Any, *, sdk: str = "") -> Exception:
    """`error` as the class that callers of this family catch, and of ours too.

    Args:
        sdk: A package whose `APIConnectionError` it has to be as well.
    """
    if isinstance(error, _InnerError):
        return error.original
    facts = dict(error.__dict__)
    if sdk:
        # That error's own, of both SDKs.
        facts |= {"message": str(error), "body": None, "code": None, "param": None, "type": None}
    translated: Exception = _rebuild(family.__name__, error.kind, error.args, facts, sdk)
    translated.request = request  # type: ignore[attr-defined]  # the family's own attribute
    return translated


def _rebuild(
    family: str, kind: ExchangeKind, args: tuple[Any, ...], facts: dict[str, Any], sdk: str = ""
) -> Any:
    error_type = _error_type(family, _NAMES[kind], sdk)
    error = error_type.__new__(error_type, *args)
    error.args = args
    error.__dict__.update(facts, _request=None)  # as the family's own are before they are sent
    return error


@lru_cache(maxsize=64)
def _error_type(family: str, name: str, sdk: str) -> Any:
    def reduce(self: Any) -> tuple[Any, ...]:
        facts = {k: v for k, v in self.__dict__.items() if k not in ("_request", "__notes__")}
        return _rebuild, (family, self.kind, self.args, facts, sdk)

    bases = [ExchangeError, getattr(import_module(family), name)]
    if sdk:
        bases.append(import_module(sdk).APIConnectionError)
    return type(name, tuple(bases), {"__reduce__": reduce, "__module__": __name__})


class _InnerError(ExchangeError):
    """A failure of the transport below ours, which leaves as it came."""

    original: Exception


_KINDS: dict[str, ExchangeKind] = {name: kind for kind, name in _NAMES.items()} | {
    "ConnectError": "connect",
    "ReadTimeout": "read_timeout",
    "ProxyError": "connect",  # raised before the request is written
    "RemoteProtocolError": "closed",
    "LocalProtocolError": "protocol",  # the request is no HTTP: the next one will not be
}
_NEVER_SENT = frozenset({"connect", "connect_timeout", "pool_timeout", "unsupported"})


def _from_family(error: Exception, origin: Origin) -> _InnerError:
    names = (ancestor.__name__ for ancestor in type(error).__mro__)
    kind: ExchangeKind = next((_KINDS[name] for name in names if name in _KINDS), "read")
    translated = _InnerError(
        str(error) or type(error).__name__,
        kind=kind,
        sent="nothing" if kind in _NEVER_SENT else "all",
        origin=str(origin),
    )
    translated.original = error
    return translated


class _InnerResponse:
    """A family's response as a connector gives one."""

    _chunks: Any = None

    def __init__(self, response: Any, fail: Callable[[Exception], ExchangeError]) -> None:
        self.status: int = response.status_code
        self.reason: str = response.extensions.get("reason_phrase", b"").decode("latin-1")
        version: bytes = response.extensions.get("http_version", b"HTTP/1.1")
        self.protocol = version.decode("ascii")
        self.headers = Headers(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in response.headers.raw
        )
        self.extensions: dict[str, Any] = response.extensions
        self._response, self._fail = response, fail

    def cut(self) -> None:
        """A foreign transport can only be closed; dropping it is all that never blocks."""
        self._response = self._chunks = None

    abandon = cut


class _SyncInnerResponse(_InnerResponse):
    _chunks: Iterator[bytes] | None = None

    def read(self) -> bytes:
        if self._response is None:
            return b""
        if self._chunks is None:
            self._chunks = iter(self._response.stream)
        try:
            data = next((chunk for chunk in self._chunks if chunk), b"")
        except Exception as error:
            raise self._fail(error) from error.__cause__
        if not data:
            self.close()
        return data

    def close(self, *, finished: bool = False) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.stream.close()


class _AsyncInnerResponse(_InnerResponse):
    _chunks: AsyncIterator[bytes] | None = None

    async def read(self) -> bytes:
        if self._response is None:
            return b""
        if self._chunks is None:
            self._chunks = self._response.stream.__aiter__()
        data = b""
        try:
            while not data:
                data = await anext(self._chunks)
        except StopAsyncIteration:
            await self.close()
        except Exception as error:
            raise self._fail(error) from error.__cause__
        return data

    async def close(self, *, finished: bool = False) -> None:
        response, self._response = self._response, None
        chunks, self._chunks = self._chunks, None
        if isinstance(chunks, AsyncGenerator):
            # Closing the stream does not end it, and trio complains of one left half-read.
            await chunks.aclose()
        if response is not None:
            await response.stream.aclose()


class _InnerExchange:
    def __init__(self, family: Any, inner: Any, request: Any) -> None:
        self._family, self._inner, self._request = family, inner, request

    def _sent(self, call: Call) -> Any:
        original = self._request
        if call.body is body_of(original) and call.headers == headers_of(original):
            return original
        return self._family.Request(
            original.method,
            original.url,
            headers=[(n.encode("ascii"), v.encode("latin-1")) for n, v in call.headers],
            content=call.body,
            extensions=original.extensions,
        )

    def _fail(self, error: Exception) -> ExchangeError:
        # The caller names the error's own cause, because `error` itself is raised again at
        # the end, and would else be its own cause.
        if isinstance(error, (self._family.TransportError, ExchangeError)):
            return _from_family(error, address_of(self._request)[0])
        raise error


class Inner(_InnerExchange):
    def exchange(self, call: Call, timeline: Timeline) -> _SyncInnerResponse:
        try:
            response = self._inner.handle_request(self._sent(call))
        except Exception as error:
            raise self._fail(error) from error.__cause__
        except BaseException:
            _may_be_sent(timeline)
            raise
        return _SyncInnerResponse(response, self._fail)


class AsyncInner(_InnerExchange):
    async def exchange(self, call: Call, timeline: Timeline) -> _AsyncInnerResponse:
        try:
            response = await self._inner.handle_async_request(self._sent(call))
        except Exception as error:
            raise self._fail(error) from error.__cause__
        except BaseException:
            _may_be_sent(timeline)
            raise
        return _AsyncInnerResponse(response, self._fail)


def _may_be_sent(timeline: Timeline) -> None:
    """Mark a call that was cancelled inside a foreign transport, which does not tell how far."""
    now = REAL()
    timeline.send = Span(now, now)
