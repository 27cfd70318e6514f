"""How our own client judges a reply: its typed value, or the error that it is. No I/O."""

from __future__ import annotations

from time import time
from typing import Any

import msgspec

from ._call import Headers, Reply
from ._errors import (
    AuthenticationError,
    InvalidRequestError,
    MalformedReplyError,
    OverloadedError,
    RateLimitError,
    ServerError,
    SmartClientError,
    StatusError,
    status_error,
)
from .wire import Failure

__all__ = ["decoded", "failure_error", "not_events", "success"]


def success(reply: Reply) -> Reply:
    """`reply`, unless its status says that it is none; what was peeked at says why.

    Raises:
        StatusError: The provider refused the call, failed, or sent it elsewhere.
    """
    if reply.status < 300:
        return reply
    if reply.status < 400:
        # Without its query, which may hold a key.
        where = (reply.headers.get("location") or "nowhere").partition("?")[0]
        failure = Failure(kind="invalid", message=f"it redirects to {where}; use that base_url")
    else:
        failure = reply.handle.intake.error_reply()
    raise failure_error(failure, reply, status=reply.status)


def failure_error(failure: Failure, reply: Reply, *, status: int | None) -> SmartClientError:
    """The exception for a failure that the provider reported, or that its stream is."""
    if status is None and failure.kind == "malformed":
        return MalformedReplyError(
            f"the stream of {reply.call.origin} is not what its format promises: {failure.message}",
            status=reply.status,
            content_type=reply.headers.get("content-type") or "",
            excerpt=b"",
        )
    from .policies.retry import retry_after  # not needed to import

    adapter = reply.call.adapter
    header = adapter.request_id_header if adapter else "request-id"
    error_class = status_error(status, failure.type)
    if (status or 0) < 300 and error_class is ServerError:  # a type that says nothing
        error_class = _BY_KIND.get(failure.kind, ServerError)
    return error_class(
        status=status,
        type=failure.type,
        code=failure.code,
        message=_without_keys(failure.message, reply.call.headers),
        request_id=reply.headers.get(header),
        attempts=len(reply.call.trace.attempts),
        retry_after=retry_after(reply.headers, now=time()) if status is not None else None,
        hint=_HINTS.get(failure.kind, ""),
    )


_SHORTEST_KEY = 8
_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key"})


def _without_keys(text: str, headers: Headers) -> str:
    """`text` of a server that repeats what it was sent, without the caller's keys."""
    for name, value in headers:
        key = value.rpartition(" ")[2]
        # A shorter one is no secret, and a word of the text.
        if len(key) >= _SHORTEST_KEY and name.lower() in _CREDENTIALS:
            text = text.replace(key, "[key]")
    return text


_BY_KIND: dict[str, type[StatusError]] = {
    "invalid": InvalidRequestError,
    "authentication": AuthenticationError,
    "rate_limited": RateLimitError,
    "money": RateLimitError,
    "overloaded": OverloadedError,
}

_HINTS = {
    "money": "the account has no quota or credit left; waiting does not help",
    "authentication": "check the API key and what it may do",
}


def not_events(reply: Reply) -> SmartClientError:
    """The exception for a reply that is not the event stream that was asked for."""
    intake = reply.handle.intake
    failure = intake.no_stream()
    if failure.kind != "malformed":  # an error under a status that was good
        return failure_error(failure, reply, status=reply.status)
    kind = reply.headers.get("content-type") or "no content-type"
    encoding = reply.headers.get("content-encoding")
    packed = f" in content-encoding {encoding}" if encoding else ""
    return MalformedReplyError(
        f"a stream was asked for, but {reply.call.origin} answered {reply.status} with {kind}"
        f"{packed}; does a proxy stand between?",
        status=reply.status,
        content_type=kind,
        excerpt=intake.beginning[:200],
    )


def decoded(reply: Reply, body: bytes, kind: Any) -> Any:
    """The typed value of a complete reply.

    Args:
        kind: A struct for what no adapter decodes; `None` leaves it to the adapter.

    Raises:
        MalformedReplyError: It is not JSON of this format.
        StatusError: It is an error, for all that its status says.
    """
    adapter = reply.call.adapter
    intake = reply.handle.intake if reply.handle is not None else None
    failure = intake.reported if intake is not None else None
    if failure is not None and failure.kind != "malformed":
        # Some proxies answer 200 with an error in it.
        raise failure_error(failure, reply, status=reply.status)
    if kind is None and intake is not None and intake.value is not None:
        return intake.value  # decoded for those who watched
    try:
        if kind is not None or adapter is None:
            return msgspec.json.decode(body, type=Any if kind is None else kind)
        return adapter.value(body)
    except msgspec.DecodeError as error:
        content_type = reply.headers.get("content-type") or "no content-type"
        path = reply.call.target.partition("?")[0]  # a query may hold a key
        raise MalformedReplyError(
            f"{reply.call.origin} answered {reply.status} with {content_type}, which is not "
            f"what {path} promises: {error}",
            status=reply.status,
            content_type=content_type,
            excerpt=body[:200],
        ) from error
