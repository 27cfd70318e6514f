"""The outermost layer of the server: every call enters and leaves here."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..api.errors import ApiError, error_response, shape_of
from ..api.record import CallRecord
from .auth import AdminKey, ApiKeys
from .limits import DisconnectedError, drain, read_body
from .patience import note_patience
from .request_log import RequestLog

__all__ = ["Gateway"]

_OPEN_PATHS = ("/health", "/health/live", "/health/ready")
"""Asked by probes that have no key, and not worth a line in the log."""


_DEBUG_PATHS = "/debug/"
"""Beginning of those that show what all tenants do."""


class Gateway:
    """Lets calls in or refuses them, and notes what became of them.

    Args:
        api: Gets the body and the call's record in the ASGI scope's state.
        keys: Who is let in.
        admin: Who is let into the paths that show what all tenants do.
        max_body_bytes: Longest body.
        request_log: Gets a line per call.
    """

    def __init__(
        self,
        api: ASGIApp,
        *,
        keys: ApiKeys,
        admin: AdminKey,
        max_body_bytes: int,
        request_log: RequestLog,
    ) -> None:
        self._api = api
        self._keys = keys
        self._admin = admin
        self._max_body_bytes = max_body_bytes
        self._log = request_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        record = CallRecord(scope["path"])
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        note_patience(record, headers)
        labelled = _labelled(send, record, scope["path"], headers)
        try:
            await self._answer(scope, receive, labelled, record, headers)
        finally:
            if scope["path"] not in _OPEN_PATHS:
                self._log.put(record)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        record: CallRecord,
        headers: Mapping[str, str],
    ) -> None:
        try:
            body = await self._let_in(scope, receive, record, headers)
        except DisconnectedError:
            record.outcome = "disconnected"
        except ApiError as error:
            record.outcome = error.kind
            response = error_response(error, shape_of(scope["path"], headers), record.id)
            await response(scope, receive, send)
        else:
            scope.setdefault("state", {}).update(record=record, body=body)
            await self._api(scope, receive, send)

    async def _let_in(
        self, scope: Scope, receive: Receive, record: CallRecord, headers: Mapping[str, str]
    ) -> bytes:
        """Check the key, read the body."""
        if scope["path"] not in _OPEN_PATHS:
            try:
                if scope["path"].startswith(_DEBUG_PATHS):
                    state = scope.setdefault("state", {})
                    peer, _ = scope.get("client") or (None, None)
                    state["is_admin"] = self._admin.check(headers, peer)
                else:
                    record.tenant = self._keys.tenant(headers)
            except ApiError:
                await drain(receive, self._max_body_bytes)
                raise
        return await read_body(receive, headers, limit=self._max_body_bytes)


def _labelled(send: Send, record: CallRecord, path: str, headers: Mapping[str, str]) -> Send:
    """`send`, with the request's id and the stages so far in the reply's headers."""
    names = [b"x-request-id"]
    if shape_of(path, headers) == "anthropic":
        names.append(b"request-id")

    async def labelled(message: Message) -> None:
        if message["type"] == "http.response.start":
            record.status = message["status"]
            if "gateway" not in record.stages:  # refused before anything else happened
                record.note("gateway", 0.0, record.elapsed())
            own = [(name, record.id.encode()) for name in names]
            own.append((b"server-timing", record.server_timing().encode()))
            message = {**message, "headers": [*message.get("headers", ()), *own]}
        await send(message)

    return labelled
