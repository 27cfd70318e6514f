"""Errors in the shape of each API.

Source: Anthropic API reference, "Errors"; OpenAI API reference, "Error codes".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .answers import ErrorAnswer
from .request import Received

__all__ = ["error_fields", "id_header", "request_id", "speaks_anthropic"]

_BAD = "invalid_request_error"
_ANTHROPIC_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OPENAI_TYPES: Mapping[int, tuple[str, str | None]] = {
    401: (_BAD, "invalid_api_key"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "server_is_overloaded"),
    529: ("server_error", "server_is_overloaded"),
}
_MESSAGES: Mapping[int, str] = {
    401: "invalid api key",
    429: "rate limited",
    503: "overloaded",
    529: "overloaded",
}


def speaks_anthropic(received: Received) -> bool:
    """Whether a caller speaks Anthropic's API: by the path, else by what its SDK sends."""
    if received.api is not None or "/chat/" in received.path:
        return received.api == "anthropic.messages"
    is_messages = "/v1/messages" in received.path
    return is_messages or received.header("anthropic-version") is not None


def request_id(received: Received) -> str:
    return f"req_{received.reply_id}"


def id_header(received: Received) -> tuple[str, str]:
    """The header that carries the request's id."""
    name = "request-id" if speaks_anthropic(received) else "x-request-id"
    return name, request_id(received)


def error_fields(error: ErrorAnswer, received: Received) -> dict[str, Any]:
    """The error as an object: a reply's body, or the data of an event."""
    message = error.message or _MESSAGES.get(error.status) or f"scripted error {error.status}"
    default = _BAD if error.status < 500 else "api_error"
    if speaks_anthropic(received):
        kind = error.type or _ANTHROPIC_TYPES.get(error.status, default)
        detail = {"type": kind, "message": message}
        return {"type": "error", "error": detail, "request_id": request_id(received)}
    default = _BAD if error.status < 500 else "server_error"
    kind, code = _OPENAI_TYPES.get(error.status, (default, None))
    return {
        "error": {
            "message": message,
            "type": error.type or kind,
            "param": error.param,
            "code": error.code or (None if error.type else code),
        }
    }
