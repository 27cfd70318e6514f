"""Refusals and failures, each in the shape of the API that was called.

Source: Anthropic API reference, "Errors"; OpenAI API reference, "Error codes".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
from starlette.responses import Response

__all__ = [
    "ApiError",
    "ErrorKind",
    "Shape",
    "error_body",
    "error_response",
    "error_types",
    "openai_error",
    "shape_of",
    "shortened",
]

_SHOWN = 80

ErrorKind = Literal[
    "invalid",
    "unauthenticated",
    "not_found",
    "method_not_allowed",
    "timed_out",
    "too_large",
    "rate_limited",
    "overloaded",
    "internal",
    "deadline",
]

Shape = Literal["anthropic", "openai"]


class ApiError(Exception):
    """A request that is refused or failed.

    Args:
        kind: Decides the status and the type in each API's shape.
        message: What happened, with the numbers, and what to do.
        param: JSON path of the field that is wrong.
        code: OpenAI's finer code; `None` takes the kind's.
        retry_after: Seconds after which to try again.
        allow: Methods that the path takes, for `method_not_allowed`.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        allow: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.param = param
        self.code = code
        self.retry_after = retry_after
        self.allow = allow

    def status(self, shape: Shape) -> int:
        """The HTTP status, which for `overloaded` differs between the APIs."""
        return error_types(self.kind, shape)[0]


@dataclass(frozen=True, slots=True)
class _Row:
    anthropic_status: int
    anthropic_type: str
    openai_status: int
    openai_type: str
    openai_code: str | None


_BAD = "invalid_request_error"
_ROWS: Mapping[ErrorKind, _Row] = {
    "invalid": _Row(400, _BAD, 400, _BAD, None),
    "unauthenticated": _Row(401, "authentication_error", 401, _BAD, "invalid_api_key"),
    "not_found": _Row(404, "not_found_error", 404, _BAD, None),
    "method_not_allowed": _Row(405, _BAD, 405, _BAD, "method_not_supported"),
    "timed_out": _Row(408, "timeout_error", 408, _BAD, "request_timeout"),
    "too_large": _Row(413, "request_too_large", 413, _BAD, "request_too_large"),
    "rate_limited": _Row(429, "rate_limit_error", 429, "rate_limit_error", "rate_limit_exceeded"),
    "overloaded": _Row(529, "overloaded_error", 503, "server_error", "server_is_overloaded"),
    "internal": _Row(500, "api_error", 500, "server_error", None),
    "deadline": _Row(504, "timeout_error", 504, "server_error", "deadline_exceeded"),
}


def error_types(kind: ErrorKind, shape: Shape) -> tuple[int, str]:
    """The status and the type of an error."""
    row = _ROWS[kind]
    if shape == "anthropic":
        return row.anthropic_status, row.anthropic_type
    return row.openai_status, row.openai_type


def shape_of(path: str, headers: Mapping[str, str]) -> Shape:
    """Which API a caller speaks: by the path, else by the headers its SDK sends."""
    if path.startswith("/v1/messages"):
        return "anthropic"
    if path.startswith(("/v1/chat/", "/v1/completions", "/v1/responses", "/v1/embeddings")):
        return "openai"
    return "anthropic" if "anthropic-version" in headers or "x-api-key" in headers else "openai"


def shortened(text: str) -> str:
    """What a caller sent, as a complaint or the log shows it: never megabytes of it."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def error_body(error: ApiError, shape: Shape, request_id: str) -> bytes:
    """The error as JSON: a reply's body, or the data of an event in a stream."""
    if shape == "anthropic":
        detail = {"type": _ROWS[error.kind].anthropic_type, "message": error.message}
        return msgspec.json.encode({"type": "error", "error": detail, "request_id": request_id})
    return msgspec.json.encode({"error": openai_error(error), "request_id": request_id})


def openai_error(error: ApiError) -> dict[str, str | None]:
    """The error as an object of OpenAI's APIs."""
    row = _ROWS[error.kind]
    return {
        "message": error.message,
        "type": row.openai_type,
        "param": error.param,
        "code": error.code or row.openai_code,
    }


def error_response(error: ApiError, shape: Shape, request_id: str) -> Response:
    """The error as a whole reply."""
    headers = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if error.allow is not None:
        headers["allow"] = error.allow
    return Response(
        error_body(error, shape, request_id),
        status_code=error.status(shape),
        headers=headers,
        media_type="application/json",
    )
