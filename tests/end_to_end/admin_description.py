"""The admin API as an OpenAPI document, from the endpoints that it lists itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["admin_description"]

_HEADERS = {"type": "object", "additionalProperties": {"type": "string"}}
_THEN: dict[str, Any] = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "required": ["json"],
            "properties": {"json": {}, "status": {"type": "integer"}, "headers": _HEADERS},
        },
        {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "status": {"type": "integer", "minimum": 400, "maximum": 599},
                "ttft": {"type": "number", "minimum": 0},
                "headers": _HEADERS,
                "thinking": {"type": "string"},
                "split": {"type": "integer"},
                "tool_calls": {"type": "array", "items": {"type": "object"}},
                "usage": {"type": "object", "properties": {"output": {"type": "integer"}}},
                "error": {"type": "object", "properties": {"status": {"type": "integer"}}},
                "fault": {"enum": ["status_200_error", "cut_mid_event"]},
            },
        },
    ]
}
_RULE = {
    "type": "object",
    "required": ["then"],
    "properties": {
        "then": {"anyOf": [_THEN, {"type": "array", "items": _THEN}]},
        "user": {"type": "string"},
        "model": {"type": "string"},
        "matches": {"type": "string"},
        "header": _HEADERS,
        "turn": {"type": "integer"},
        "attempt": {"type": "integer"},
        "tool_result": {"type": "boolean"},
        "times": {"type": "integer", "minimum": 1},
        "name": {"type": "string"},
    },
}
_BODIES: dict[str, dict[str, Any]] = {
    "PUT /rules": {"rules": {"type": "array", "items": _RULE}},
    "POST /calls": {"user": {"type": "string"}},
    "POST /calls/outcome": {
        "call": {"type": "integer"},
        "text": {"type": ["string", "null"]},
        "error": {"type": ["string", "null"]},
        "abandoned": {"type": "boolean"},
    },
    "POST /clock/advance": {"seconds": {"type": "number", "minimum": 0}},
}
_QUERIES = {
    "GET /journal": {"after": {"type": "integer"}, "limit": {"type": "integer"}},
    "GET /verdict": {"max_attempts": {"type": "integer"}, "ignore": {"type": "string"}},
}


def admin_description(endpoints: Iterable[str]) -> dict[str, Any]:
    """Args: endpoints: `GET /rules` and so on."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        method, path = endpoint.split()
        paths.setdefault(path, {})[method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.1",
        "info": {"title": "admin", "version": "1"},
        "security": [{"bearer": []}],
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def _operation(endpoint: str) -> dict[str, Any]:
    query = _QUERIES.get(endpoint, {})
    refused = {"type": "object", "required": ["error"]}
    operation: dict[str, Any] = {
        "parameters": [{"name": n, "in": "query", "schema": s} for n, s in query.items()],
        "responses": {
            "200": _reply({"type": "object"}),
            **{status: _reply(refused) for status in ("400", "401", "404", "409", "411", "413")},
        },
    }
    if endpoint in _BODIES:
        schema = {"type": "object", "properties": _BODIES[endpoint]}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation


def _reply(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "", "content": {"application/json": {"schema": schema}}}
