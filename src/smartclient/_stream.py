"""Streams of our own client: typed events as they come.

`Stream` and `AsyncStream` have the same methods; what they decide stands in `_Events`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, Self, TypeVar

from ._call import Reply
from ._errors import ExchangeError, IncompleteStreamError, SmartClientError
from ._verdict import failure_error
from .report import CallReport
from .transports.body import AsyncBody, Body
from .transports.intake import Chunk

__all__ = ["AsyncStream", "Stream"]

ValueT = TypeVar("ValueT")


class _Events(Generic[ValueT]):
    """The values of one stream that have come and are not yet handed on."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._queue: list[ValueT] = []  # the next one last
        self._seen: list[ValueT] = []
        self._error: SmartClientError | None = None
        self._is_terminal = self._is_closed = self._has_ended = False

    @property
    def request_id(self) -> str | None:
        """What to quote to the provider."""
        adapter = self._reply.call.adapter
        return self._reply.headers.get(adapter.request_id_header) if adapter else None

    @property
    def report(self) -> CallReport | None:
        """What happened to this call; `None` until the stream has ended."""
        report = self._reply.call.trace.report
        return None if report is None else report.get()

    def _take(self, chunk: Chunk) -> None:
        """Queue what `chunk` holds, once nothing is queued any more."""
        for part in chunk.parts:
            if part.delta.failure is not None:
                self._error = failure_error(part.delta.failure, self._reply, status=None)
                break
            self._is_terminal = self._is_terminal or part.delta.is_terminal
            if part.value is not None:
                self._queue.append(part.value)
        else:
            if not self._is_terminal:
                self._error = chunk.broken
        self._queue.reverse()

    def _pop(self) -> ValueT:
        value = self._queue.pop()
        self._seen.append(value)
        return value

    def _partial(self) -> Any:
        """The typed answer, as far as it has come."""
        adapter = self._reply.call.adapter
        if adapter is None or not self._seen:
            return None
        accumulator = adapter.accumulator()
        for value in self._seen:
            accumulator.add(value)
        return accumulator.result()

    def _check_end(self) -> None:
        """Raise, once, when the stream ended early and not because its reader closed it."""
        was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        if self._reply.handle.intake.is_cut_short:
            raise self._incomplete(
                f"ended after {len(self._seen)} events without its terminal event, so the answer "
                "may be cut"
            )
        self._has_ended = True

    def _whole(self) -> Any:
        """The typed answer of a stream that nobody reads any more; a part of one is an error."""
        if not (self._is_terminal or self._has_ended):
            raise self._incomplete(
                f"was left after {len(self._seen)} events, before its end; read on before it is "
                "closed"
            )
        return self._partial()

    def _text(self, value: Any) -> str:
        adapter = self._reply.call.adapter
        return "" if adapter is None else adapter.text(value)

    def _incomplete(self, what: str) -> IncompleteStreamError:
        return IncompleteStreamError(
            f"the stream of {self._reply.call.origin} {what}; what came is in .partial",
            partial=self._partial(),
        )

    def _take_error(self) -> SmartClientError:
        """The error that ends the stream; kept no longer, since it holds its reader."""
        error, self._error = self._error, None
        assert error is not None
        error.partial = self._partial()
        return error


class Stream(_Events[ValueT]):
    """Typed events of one reply, as they come; use it as a context manager.

    Raises, while it is read:
        StatusError: The provider reports an error inside the stream.
        ExchangeError: The connection broke.
        IncompleteStreamError: The stream ended early. Each has what came in `.partial`.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self._body: Body = reply.handle

    def __iter__(self) -> Iterator[ValueT]:
        return self

    def __next__(self) -> ValueT:
        while not self._queue:
            if self._error is not None:
                self.close()
                raise self._take_error()
            if self._is_terminal and not self._is_closed:
                self.close()  # the rest of the transfer is nothing to wait for
            self._fetch()
        return self._pop()

    def _fetch(self) -> None:
        try:
            chunk = self._body.next()
        except ExchangeError as error:
            error.partial = self._partial()
            raise
        if chunk is not None:
            self._take(chunk)
            return
        self._check_end()
        raise StopIteration

    def close(self) -> None:
        """End it; the connection is kept when the whole answer has come."""
        self._is_closed = True
        self._body.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncStream(_Events[ValueT]):
    """Typed events of one reply, as they come; use it as an async context manager.

    Raises what `Stream` does.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self._body: AsyncBody = reply.handle

    def __aiter__(self) -> AsyncIterator[ValueT]:
        return self

    async def __anext__(self) -> ValueT:
        while not self._queue:
            if self._error is not None:
                await self.close()
                raise self._take_error()
            if self._is_terminal and not self._is_closed:
                await self.close()  # the rest of the transfer is nothing to wait for
            await self._fetch()
        return self._pop()

    async def _fetch(self) -> None:
        try:
            chunk = await self._body.next()
        except ExchangeError as error:
            error.partial = self._partial()
            raise
        if chunk is not None:
            self._take(chunk)
            return
        self._check_end()
        raise StopAsyncIteration

    async def close(self) -> None:
        """End it; the connection is kept when the whole answer has come."""
        self._is_closed = True
        await self._body.close()

    aclose = close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
