"""The API's routes as an ASGI app.

Whoever is in front has read the body and put it, with the call's record, into the ASGI
scope's state; what is left to receive is the client's going away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from . import anthropic_messages, health, models, openapi, steps
from .anthropic_messages import AnthropicMessages
from .chat import ChatRequest
from .errors import ApiError, Shape, error_response, shape_of, shortened
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .record import CallRecord
from .replies import collect, send_json, send_stream, unless_disconnected
from .service import Service
from .wire import WireFormat, encode

__all__ = ["create_app", "record_of"]

# To check 32 MB of small objects takes seconds: off the loop, other streams go on.
_LONG_BODY = 1 << 16


def record_of(scope: Scope) -> CallRecord:
    """The record that whoever is in front has begun for this call."""
    record = scope["state"]["record"]
    assert isinstance(record, CallRecord)
    return record


def create_app(service: Service) -> FastAPI:
    """Every API over one service."""
    routes = _Routes(service)
    app = FastAPI(
        openapi_url=None,
        routes=[
            Route("/v1/messages", _Chat(service, AnthropicMessages()), methods=["POST"]),
            Route("/v1/messages/count_tokens", routes.count_tokens, methods=["POST"]),
            Route("/v1/chat/completions", _Chat(service, OpenAIChat()), methods=["POST"]),
            Route("/v1/responses", _Chat(service, OpenAIResponses()), methods=["POST"]),
            Route("/v1/models", routes.list_models),
            Route("/v1/models/{name:path}", routes.one_model),
            Route("/openapi.json", routes.openapi),
            Route("/debug/steps", routes.steps),
            Route("/health", routes.health),
            Route("/health/live", routes.live),
            Route("/health/ready", routes.health),
        ],
        exception_handlers={
            ApiError: _on_api_error,
            HTTPException: _on_http_error,
            Exception: _on_bug,
        },
    )
    app.router.redirect_slashes = False
    return app


class _Chat:
    """One chat endpoint, as an ASGI app of its own: nothing stands between it and the wire."""

    def __init__(self, service: Service, wire: WireFormat) -> None:
        self._service = service
        self._wire = wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = record_of(scope)
        if not await unless_disconnected(receive, self._answer(scope, send, record)):
            record.outcome = "disconnected"

    async def _answer(self, scope: Scope, send: Send, record: CallRecord) -> None:
        request = await _read(self._wire.read, scope["state"]["body"])
        record.model, record.stream = request.model, request.stream
        events = self._service.generate(request, record)
        if request.stream:
            await send_stream(send, events, wire=self._wire, request=request, record=record)
        else:
            answer = await collect(events)
            await send_json(send, self._wire.reply(answer, request, record.id))


class _Routes:
    """The endpoints that answer at once."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def count_tokens(self, request: Request) -> Response:
        record = record_of(request.scope)
        read = partial(anthropic_messages.read_request, counting=True)
        asked = await _read(read, request.scope["state"]["body"])
        record.model = asked.model
        return _json({"input_tokens": await self._service.count_tokens(asked, record)})

    async def list_models(self, request: Request) -> Response:
        return _json(models.list_models(self._service.model(), _shape(request)))

    async def one_model(self, request: Request) -> Response:
        name = request.path_params["name"]
        return _json(models.one_model(self._service.model(), name, _shape(request)))

    async def openapi(self, request: Request) -> Response:
        return _json(openapi.describe(self._service.model()))

    async def steps(self, request: Request) -> Response:
        last = steps.read_last(request.query_params.get("last"))
        engines = await self._service.steps(last)
        return _json(steps.describe(engines, is_admin=request.scope["state"]["is_admin"]))

    async def health(self, request: Request) -> Response:
        state = self._service.health()
        return _json(health.describe(state), status=health.status_of(state))

    async def live(self, request: Request) -> Response:
        return _json({"live": True})


async def _read(read: Callable[[bytes], ChatRequest], body: bytes) -> ChatRequest:
    """Check a body, in a thread if it is long."""
    if len(body) < _LONG_BODY:
        return read(body)
    return await asyncio.to_thread(read, body)


def _json(body: dict[str, object], *, status: int = 200) -> Response:
    return Response(encode(body), status_code=status, media_type="application/json")


def _shape(request: Request) -> Shape:
    return shape_of(request.url.path, request.headers)


async def _on_api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    record = record_of(request.scope)
    record.outcome = error.kind
    return error_response(error, _shape(request), record.id)


async def _on_http_error(request: Request, error: Exception) -> Response:
    """What the router says: an unknown path, or a method that the path does not take."""
    assert isinstance(error, HTTPException)
    path, method = request.url.path, request.method
    if error.status_code == 405:
        allow = (error.headers or {}).get("Allow", "")
        refusal = ApiError("method_not_allowed", f"{path} takes {allow}, not {method}", allow=allow)
    else:
        refusal = ApiError("not_found", f"there is no {shortened(path)} here", code="unknown_url")
    return await _on_api_error(request, refusal)


async def _on_bug(request: Request, error: Exception) -> Response:
    # Starlette raises the error again after this reply; the server then logs it.
    what = "the server failed; its log has the reason"
    return await _on_api_error(request, ApiError("internal", what))
