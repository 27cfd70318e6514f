"""How our own client makes a call from its arguments. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from ._call import Call, Headers, Origin, Timeout, Trace
from ._pipeline import Pipeline
from ._settings import Settings, check_max_retries, environment
from ._timeout_setting import timeout_of
from .wire import recognise
from .wire.encode import encode

__all__ = ["MAX_BODY", "UNSET", "PerCall", "Session", "Unset", "valid_key"]

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
        if self.max_retries is not None:
            check_max_retries(self.max_retries)
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
        self.pipeline = Pipeline(settings)
        self._headers = Headers(_provider_headers(provider, valid_key(api_key)))

    def expect(self, provider: str, resource: str) -> None:
        """Raise unless this session speaks to `provider`, which has `resource`."""
        if provider != self.provider:
            raise TypeError(
                f"{resource} is {provider}'s, and this client speaks to {self.provider}; "
                f"make one with provider={provider!r}"
            )

    def no_call(self) -> Call:
        """What stands for a call while a connection is opened for none."""
        settings, clock = self.pipeline.settings, self.pipeline.clock
        return Call(
            method="prewarm",
            origin=self.origin,
            target="",
            headers=Headers(),
            trace=Trace(started=clock.monotonic()),
            timeout=settings.timeout,
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
            adapter=recognise("POST", path),
            timeout=timeout,
            max_retries=given.max_retries,
            max_event_bytes=settings.max_event_bytes,
        )


def _address(base_url: str) -> tuple[Origin, str]:
    """The origin of `base_url`, and what goes before each path."""
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a string, not {type(base_url).__name__}")
    if any(mark <= " " or mark == "\x7f" for mark in base_url.strip()):
        # `urlsplit` drops line breaks in silence, wherever they stand.
        raise ValueError("base_url has a space, a line break or a control character in it")
    if any(mark in base_url for mark in "?#@"):
        raise ValueError(
            "base_url must be a scheme, a host and a path alone; a query goes into extra_query "
            "and a key into api_key"
        )
    origin, prefix = Origin.of(base_url)
    return origin, prefix.rstrip("/")


def valid_key(api_key: Any) -> str | None:
    """`api_key`, if a header can carry it.

    Raises:
        TypeError: It is no text.
        ValueError: It cannot be sent; the message does not show it.
    """
    if api_key is None:
        return None
    if not isinstance(api_key, str):
        kind = "bytes" if isinstance(api_key, bytes) else type(api_key).__name__
        raise TypeError(f"api_key must be a string, not {kind}")
    if not api_key or not api_key.isascii() or any(c <= " " or c == "\x7f" for c in api_key):
        raise ValueError(
            f"api_key ({len(api_key)} characters, not shown) is empty, or has a space, a line "
            "break or a character outside ASCII; was it read with its line end?"
        )
    return api_key


def _provider_headers(provider: str, api_key: str | None) -> list[tuple[str, str]]:
    from .transports.codings import accepted  # with zlib, not needed to import

    fields = [("accept", "application/json"), ("accept-encoding", accepted())]
    fields.append(("content-type", "application/json"))
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
