"""Errors as providers and the proxies before them report them, in one form.

The envelopes differ (`{"error": {...}}`, `{"error": "..."}`, `{"detail": ...}`, an HTML
page, nothing), the names inside hardly clash: one table serves every format.
Sources: Anthropic API reference, "Errors"; OpenAI API guide, "Error codes".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ._base import Delta, Failure, FailureKind, Part
from .sse import Event
from .value import canonical, decode

__all__ = [
    "failure_by_status",
    "malformed",
    "mended_part",
    "read_failure",
    "reported",
    "stream_failure",
]

_MAX_MESSAGE = 500  # characters

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

_KIND_BY_STATUS: dict[int, FailureKind] = {
    401: "authentication",
    402: "money",
    403: "authentication",
    408: "timeout",
    409: "server",
    425: "server",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

# Waiting does not bring money back, whatever the status says (openai-python retries it).
_MONEY = frozenset(
    {
        "billing_error",
        "insufficient_quota",
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "project_spend_limit_exceeded",
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
    }
)

_KIND_BY_NAME: dict[str, FailureKind] = {
    "invalid_request_error": "invalid",
    "not_found_error": "invalid",
    "request_too_large": "invalid",
    "content_filter": "invalid",
    "context_length_exceeded": "invalid",
    "badrequesterror": "invalid",
    "notfounderror": "invalid",
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "invalid_api_key": "authentication",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "ramp_limit_exceeded": "rate_limited",
    "slow_down": "rate_limited",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "engine_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "timeout_error": "timeout",
    "api_error": "server",
    "server_error": "server",
    "internal_error": "server",
    "internal_server_error": "server",
    "internalservererror": "server",
    "vector_store_timeout": "timeout",
    # Of a response that failed (OpenAI API reference, "Responses", "error"): its input.
    **dict.fromkeys(
        (
            "invalid_prompt",
            "data_residency_mismatch",
            "bio_policy",
            "misalignment_policy_violation",
            "invalid_image",
            "invalid_image_format",
            "invalid_base64_image",
            "invalid_image_url",
            "image_too_large",
            "image_too_small",
            "image_parse_error",
            "image_content_policy_violation",
            "invalid_image_mode",
            "image_file_too_large",
            "unsupported_image_media_type",
            "empty_image_file",
            "failed_to_download_image",
            "image_file_not_found",
        ),
        "invalid",
    ),
}

_TRANSIENT_KINDS = frozenset({"rate_limited", "overloaded", "server", "timeout"})


def failure_by_status(status: int) -> Failure:
    """What the status alone says."""
    return Failure(
        kind=_kind_by_status(status),
        status=status,
        message=f"the reply has status {status}",
        is_transient=status in _TRANSIENT_STATUSES,
    )


def read_failure(status: int, body: bytes) -> Failure:
    """Read an error reply, whatever its body is."""
    error, message = _parsed(body)
    type_, code = _names(error)
    is_transient = status in _TRANSIENT_STATUSES
    kind = _kind_by_status(status)
    if _is_money(type_, code):
        kind, is_transient = "money", False
    else:
        named = _named_kind(type_, code, message)
        # The status decides about sending again; a name only makes the kind finer.
        if named is not None and (named in _TRANSIENT_KINDS) == is_transient:
            kind = named
    return Failure(
        kind=kind,
        status=status,
        type=type_,
        code=code,
        message=_bounded(message) or f"the reply has status {status} and says nothing more",
        is_transient=is_transient,
    )


def reported(data: str | bytes) -> Failure:
    """Read the error in an event's data, or in the body of a reply whose status was good."""
    return _without_status(*_parsed(data.encode() if isinstance(data, str) else data))


def stream_failure(error: Any) -> Failure:
    """Read an error object, or what stands in its place, under a status that was good."""
    fields = _error_fields(error)
    return _without_status(fields, _message(fields))


def malformed(what: str) -> Failure:
    """What came is not what the format promises."""
    return Failure(kind="malformed", message=_bounded(what))


def _without_status(fields: Mapping[str, Any], message: str) -> Failure:
    # A name that nobody knows counts as the server's failure: what is wrong with a request
    # is found before a stream begins.
    type_, code = _names(fields)
    status = int(code) if code is not None and re.fullmatch("[45][0-9]{2}", code) else None
    if _is_money(type_, code):
        kind: FailureKind = "money"
    elif (named := _named_kind(type_, code, message)) is not None:
        kind = named
    else:
        kind = "server" if status is None else _kind_by_status(status)
    return Failure(
        kind=kind,
        type=type_,
        code=code,
        message=_bounded(message) or "an error is reported that says nothing more",
        is_transient=kind in _TRANSIENT_KINDS and (status or 500) in _TRANSIENT_STATUSES,
    )


def _kind_by_status(status: int) -> FailureKind:
    return _KIND_BY_STATUS.get(status, "server" if status >= 500 else "invalid")


def _is_money(type_: str | None, code: str | None) -> bool:
    return type_ in _MONEY or code in _MONEY


def _named_kind(type_: str | None, code: str | None, message: str) -> FailureKind | None:
    # The code is the finer name: OpenAI's type of a wrong key is invalid_request_error.
    kind = _KIND_BY_NAME.get((code or "").lower()) or _KIND_BY_NAME.get((type_ or "").lower())
    if kind == "server" and "overloaded" in message.lower():
        return "overloaded"  # anthropic-sdk-python#1258: only the text says it
    return kind


def _parsed(body: bytes) -> tuple[Mapping[str, Any], str]:
    """The error object in `body`, and its message."""
    try:
        document = decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}, _text(body)
    if isinstance(document, list) and document:
        document = document[0]
    error = document.get("error") if isinstance(document, Mapping) else None
    fields = _error_fields(document if error is None else error)
    return fields, _message(fields)


def _error_fields(error: Any) -> Mapping[str, Any]:
    if isinstance(error, Mapping):
        return error
    return {"message": error} if isinstance(error, str) else {}


def _names(error: Mapping[str, Any]) -> tuple[str | None, str | None]:
    details = error.get("details")
    code = error.get("code")
    if isinstance(details, Mapping) and code is None:
        code = details.get("error_code")
    return _name(error.get("type")), _name(code)


def _name(value: Any) -> str | None:
    return str(value)[:100] if isinstance(value, str | int) and value != "" else None


def _message(error: Mapping[str, Any]) -> str:
    for field in ("message", "detail", "error", "msg"):
        value = error.get(field)
        if isinstance(value, str) and value:
            return value
        if value is not None and value != "":
            return canonical(value).decode()
    return ""


def _text(body: bytes) -> str:
    """What a body that is not JSON says: the title of a page, or its first words."""
    text = body[:8192].decode("utf-8", "replace")
    title = re.search(r"<title[^>]*>(.*?)</title", text, re.IGNORECASE | re.DOTALL)
    if title is not None:
        return f"an HTML page: {' '.join(title[1].split())}"
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def _bounded(message: str) -> str:
    message = message.encode("utf-8", "replace").decode()  # it may hold half a surrogate pair
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"


def mended_part(event: Event, error: Exception, read: Callable[[], Part], *, what: str) -> Part:
    """An event whose data the decoder refused with `error`: an error, or read leniently.

    Args:
        read: Reads it leniently; may raise as a decoder does.
        what: What the event is called where it cannot be read at all.
    """
    text = event.data.strip()
    try:
        if event.event == "error":
            return Part(None, Delta(failure=reported(text)))
        return read()
    except (msgspec.DecodeError, RecursionError):
        why = f"{what} of {len(text):,} characters cannot be read: {error}"
        return Part(None, Delta(failure=malformed(why)))
