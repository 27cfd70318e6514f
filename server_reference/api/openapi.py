"""The API as an OpenAPI 3.1 document, for tools and clients in any language: `/openapi.json`.

What requests may hold is written from what the readers of the wire formats check, in
`openapi_bodies.py`.

Source: OpenAPI Specification 3.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal, TypeAlias

from .errors import ErrorKind, Shape, error_types
from .openapi_bodies import BODIES
from .openapi_parts import Schema, object_of
from .service import ModelCard

__all__ = ["describe"]

_Caller: TypeAlias = Shape | Literal["either"]

_ID = {"x-request-id": {"required": True, "schema": {"type": "string"}}}
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_MAYBE: Schema = {"type": ["string", "null"]}

# A method that a path does not take is 405 everywhere, and no operation of the path.
_UNREAD: Sequence[ErrorKind] = ("timed_out", "too_large")
_GET_REFUSALS: Sequence[ErrorKind] = ("unauthenticated", "not_found", *_UNREAD, "internal")
_REFUSALS: Sequence[ErrorKind] = (
    "invalid",
    *_GET_REFUSALS,
    "rate_limited",
    "overloaded",
    "deadline",
)


def describe(card: ModelCard) -> dict[str, object]:
    """The document of a server that serves `card`."""
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "server_reference",
            "version": version("smartclient"),
            "description": "What this server takes and answers; it refuses anything else by name.",
        },
        "security": [{"key": []}, {"bearer": []}],
        "paths": {**_chat_paths(), **_other_paths(card)},
        "components": {
            "schemas": {name: body(card.name) for name, body in BODIES.items()},
            "responses": _refusals(),
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "admin": {"type": "apiKey", "in": "header", "name": "x-admin-key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _chat_paths() -> dict[str, object]:
    counted = _json(object_of({"input_tokens": _COUNT}, required=["input_tokens"]))
    rows: list[tuple[str, str, Shape, Schema]] = [
        ("/v1/messages", "Message", "anthropic", _streamed("type", "message")),
        ("/v1/messages/count_tokens", "TokenCount", "anthropic", counted),
        (
            "/v1/chat/completions",
            "ChatCompletion",
            "openai",
            _streamed("object", "chat.completion"),
        ),
        ("/v1/responses", "Response", "openai", _streamed("object", "response")),
    ]
    return {
        path: {
            "post": {
                "operationId": f"create{name}",
                "requestBody": {
                    "required": True,
                    "content": _json({"$ref": f"#/components/schemas/{name}Request"}),
                },
                "responses": _responses(shape, _REFUSALS, content),
            }
        }
        for path, name, shape, content in rows
    }


def _other_paths(card: ModelCard) -> dict[str, object]:
    model = object_of({"id": {"const": card.name}}, required=["id"])
    models = object_of({"data": {"type": "array", "items": model}}, required=["data"])
    by_id = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
    answers = {
        "/v1/models": ("listModels", models),
        "/v1/models/{id}": ("getModel", model),
        "/openapi.json": ("describe", object_of({}, required=["openapi"])),
    }
    paths: dict[str, object] = {
        path: {
            "parameters": [by_id] if "{id}" in path else [],
            "get": {
                "operationId": name,
                "responses": _responses("either", _GET_REFUSALS, _json(schema)),
            },
        }
        for path, (name, schema) in answers.items()
    }
    paths["/debug/steps"] = {"get": _steps()}
    probes = ("/health", "/health/live", "/health/ready")
    return paths | {path: {"get": _probe(path)} for path in probes}


def _steps() -> dict[str, object]:
    """What the engines did last: for the admin."""
    engine = {"type": ["array", "null"]}
    body = object_of({"engines": {"type": "array", "items": engine}}, required=["engines"])
    last = {"name": "last", "in": "query", "schema": {"type": "integer", "minimum": 1}}
    return {
        "operationId": "debugSteps",
        "parameters": [last],
        "security": [{"admin": []}, {"bearer": []}],
        "responses": _responses("either", ("invalid", *_GET_REFUSALS), _json(body)),
    }


def _probe(path: str) -> dict[str, object]:
    """An endpoint that asks for no key."""
    content = _json(object_of({"live": {"const": True}}, required=["live"]))
    responses = _responses("either", _UNREAD, content)
    responses["503"] = {"description": "No engine is ready.", "headers": _ID, "content": content}
    name = path.strip("/").replace("/", "_")
    return {"operationId": name, "security": [], "responses": responses}


def _streamed(key: str, kind: str) -> dict[str, object]:
    """A reply whose `key` is `kind`, or a stream of its events."""
    schema = object_of({"id": _TEXT, key: {"const": kind}}, required=["id", key, "usage"])
    return {**_json(schema), "text/event-stream": {}}


def _json(schema: Schema) -> dict[str, object]:
    return {"application/json": {"schema": schema}}


def _responses(caller: _Caller, kinds: Sequence[ErrorKind], content: Schema) -> dict[str, object]:
    """What is answered, by status."""
    return {
        "200": {"description": "The answer.", "headers": _ID, "content": content},
        **{
            str(error_types(kind, shape)[0]): {"$ref": f"#/components/responses/{caller}_{kind}"}
            for kind in kinds
            for shape in _shapes(caller)
        },
    }


def _refusals() -> dict[str, object]:
    """Every error, as those see it that speak one API, and those that may speak either."""
    callers: Sequence[_Caller] = ("anthropic", "openai", "either")
    return {
        f"{caller}_{kind}": {
            "description": f"{kind}, in the shape of the API that was called",
            "headers": _ID,
            "content": _json({"anyOf": [_error(kind, shape) for shape in _shapes(caller)]}),
        }
        for caller in callers
        for kind in (("invalid", *_GET_REFUSALS) if caller == "either" else _REFUSALS)
    }


def _shapes(caller: _Caller) -> Sequence[Shape]:
    return ("anthropic", "openai") if caller == "either" else (caller,)


def _error(kind: ErrorKind, shape: Shape) -> Schema:
    detail: dict[str, Schema] = {
        "type": {"const": error_types(kind, shape)[1]},
        "message": {"type": "string", "minLength": 1},
    }
    fields: dict[str, Schema] = {"request_id": _TEXT}
    if shape == "anthropic":
        fields["type"] = {"const": "error"}
    else:
        detail |= {"param": _MAYBE, "code": _MAYBE}
    fields["error"] = object_of(detail, required=list(detail))
    return object_of(fields, required=list(fields))
