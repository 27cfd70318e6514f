"""How our own client makes a call from its arguments, and judges the reply. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from ._call import Call, Headers, Origin, Reply, Timeout, Trace
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
from ._pipeline import Pipeline
from ._settings import Settings, environment, timeout_of
from .wire import Failure, recognise
from .wire.encode import encode

__all__ = [
    "MAX_BODY",
    "UNSET",
    "PerCall",
    "Session",
    "Unset",
    "decoded",
    "failure_error",
    "not_events",
    "success",
]

MAX_BODY = 64 << 20  # of a reply that is not streamed, in bytes


class Unset:
    """The type of an argument that was not given, where `None` means something."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


class PerCall(Struct, frozen=True, kw_only=True):
    """What any one call may be given beside its parameters.

    Attributes:
        timeout: Seconds, a `Timeout`, or `None` for no limit.
        extra_headers: Added to the request; they replace ours of the same name.
        extra_query: Added to the URL.
        extra_body: Put into the JSON body; it replaces parameters of the same name.
        max_retries: How often this call is sent again at most.
    """

    timeout: Timeout | float | Unset | None = UNSET
    extra_headers: Mapping[str, str] | None = None
    extra_query: Mapping[str, Any] | None = None
    extra_body: Mapping[str, Any] | None = None
    max_retries: int | None = None

    def __post_init__(self) -> None:
        limit: Any = self.max_retries
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise TypeError(f"max_retries must be of type int, not {type(limit).__name__}")
        if limit is not None and limit < 0:
            raise ValueError(f"max_retries must be at least 0, not {limit}")
        for field in ("extra_headers", "extra_query", "extra_body"):
            extra: Any = getattr(self, field)
            if extra is not None and not isinstance(extra, Mapping):
                raise TypeError(f"{field} must be a mapping, not {type(extra).__name__}")
        for name, value in (self.extra_headers or {}).items():
            if not (isinstance(name, str) and isinstance(value, str)):
                raise TypeError(
                    f"extra_headers must map strings to strings, but {name!r} has "
                    f"{type(value).__name__}"
                )


_BASE_URLS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}


class Session:
    """What the sync and the async client share: whom they call, and how.

    Raises:
        ValueError: An unknown provider, a URL or a key that cannot be, or no key for the
            provider's own address.
    """

    def __init__(
        self, provider: str, base_url: str | None, api_key: str | None, settings: Settings
    ) -> None:
        if provider not in _BASE_URLS:
            raise ValueError(f"provider must be 'anthropic' or 'openai', not {provider!r}")
        key, url = environment(provider)
        api_key = key if api_key is None else api_key
        own = _BASE_URLS[provider]
        self.origin, self._prefix = _address(base_url if base_url is not None else url or own)
        if api_key is None and self.origin == Origin.of(own)[0]:
            name = f"{provider.upper()}_API_KEY"
            raise ValueError(f"no API key: pass api_key= or set {name} in the environment")
        self.provider = provider
        self.no_trace = Trace(started=0.0)
        self.pipeline = Pipeline(settings)
        self._headers = Headers(_provider_headers(provider, _valid_key(api_key)))

    def expect(self, provider: str, resource: str) -> None:
        """Raise unless this session speaks to `provider`, which has `resource`."""
        if provider != self.provider:
            raise TypeError(
                f"{resource} is {provider}'s, and this client speaks to {self.provider}; "
                f"make one with provider={provider!r}"
            )

    def call(self, path: str, payload: Mapping[str, Any], given: PerCall) -> Call:
        """A call to `path` with `payload` as its JSON body.

        Raises:
            TypeError: `payload` holds what JSON cannot.
            ValueError: A header, a number or a text that cannot be sent.
        """
        settings, clock = self.pipeline.settings, self.pipeline.clock
        started = clock.monotonic()
        if given.extra_body:
            payload = {**payload, **given.extra_body}
        for name, value in payload.items():
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"{name} must be a number that JSON can say, not {value}")
        headers = self._headers
        if given.extra_headers:
            headers = _replaced(headers, given.extra_headers)
        target = self._prefix + path
        if given.extra_query:
            target = f"{target}?{urlencode(given.extra_query, doseq=True)}"
        timeout = settings.timeout
        if not isinstance(given.timeout, Unset):
            timeout = timeout_of(given.timeout, timeout)
        return Call(
            method="POST",
            origin=self.origin,
            target=target,
            headers=headers,
            trace=Trace(started=started),
            body=encode(payload),
            payload=payload,
            adapter=recognise("POST", path.removesuffix("/count_tokens")),
            timeout=timeout,
            max_retries=given.max_retries,
        )


def _address(base_url: str) -> tuple[Origin, str]:
    """The origin of `base_url`, and what goes before each path."""
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a string, not {type(base_url).__name__}")
    if any(mark in base_url for mark in "?#@"):
        raise ValueError(
            "base_url must be a scheme, a host and a path alone; a query goes into extra_query "
            "and a key into api_key"
        )
    origin, prefix = Origin.of(base_url)
    return origin, prefix.rstrip("/")


def _valid_key(api_key: str | None) -> str | None:
    if api_key is None:
        return None
    if not isinstance(api_key, str):
        raise TypeError(f"api_key must be a string, not {type(api_key).__name__}")
    if not api_key or not api_key.isascii() or any(c <= " " or c == "\x7f" for c in api_key):
        raise ValueError(
            f"api_key ({len(api_key)} characters, not shown) is empty, or has a space, a line "
            "break or a character outside ASCII; was it read with its line end?"
        )
    return api_key


def _provider_headers(provider: str, api_key: str | None) -> list[tuple[str, str]]:
    fields = [("accept", "application/json"), ("content-type", "application/json")]
    fields.append(("user-agent", "smartclient"))
    if provider == "anthropic":
        # Stated, because a later version refuses parameters that this one takes.
        fields.append(("anthropic-version", "2023-06-01"))
        if api_key is not None:
            fields.append(("x-api-key", api_key))
    elif api_key is not None:
        fields.append(("authorization", f"Bearer {api_key}"))
    return fields


def _replaced(headers: Headers, extra: Mapping[str, str]) -> Headers:
    names = {name.lower() for name in extra}
    kept = [pair for pair in headers if pair[0].lower() not in names]
    return Headers([*kept, *extra.items()])


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
        hint=_HINTS.get(failure.kind, ""),
    )


_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key"})


def _without_keys(text: str, headers: Headers) -> str:
    """`text` of a server that repeats what it was sent, without the caller's keys."""
    for name, value in headers:
        key = value.rpartition(" ")[2]
        if key and name.lower() in _CREDENTIALS:
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
    failure = reply.handle.intake.reported if reply.handle is not None else None
    if failure is not None and failure.kind != "malformed":
        # Some proxies answer 200 with an error in it.
        raise failure_error(failure, reply, status=reply.status)
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
