"""Put our pipeline under the client object of an official SDK."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import lru_cache, wraps
from types import NoneType
from typing import Any, Self, TypeVar

from ._call import Timeout
from ._carry import carried, given_names
from ._clock import under_trio
from ._pipeline import Pipeline
from ._request import valid_key
from ._settings import Settings, settings_of
from .net.secret import hidden
from .report import CallReport
from .transports.driver import Paused
from .transports.httpx import (
    AsyncTransport,
    CallContext,
    Transport,
    call_context,
    family_of,
)

__all__ = ["report_of", "unwrap", "wrap"]

ClientT = TypeVar("ClientT")


def wrap(client: ClientT, settings: Settings | None = None, **options: Any) -> ClientT:
    """Upgrade the client of an official SDK in place, and return it.

    Its calls then go through our retries, reports and connections; nothing else about it
    changes. The SDK's own retries are off while it is wrapped: its limit (`max_retries`)
    is kept by our policy, which sees every kind of failure. A client that is wrapped
    already stays as it is, unless settings are given: these then replace the old ones.

    Args:
        client: An `openai` or `anthropic` client, sync or async.
        options: Fields of `Settings`.

    Raises:
        TypeError: `client` is no such client, or a setting does not exist.
        ValueError: A setting cannot be, or the client shares the HTTP client of one that is
            wrapped already, or has one that we made, with other settings, or a setting about
            connections is given and the client's own transport stays below ours.
    """
    target: Any = client
    chosen = settings_of(settings, options)
    _check_effective(chosen)
    http_client = getattr(target, "_client", None)
    if settings is not None or options.keys() - {"max_retries"}:
        _check_settable(target, http_client, chosen)
    if _is_wrapped(target):
        present = getattr(http_client, "_transport", None)
        if settings is None and not options and isinstance(present, (Transport, AsyncTransport)):
            present.users.add(target)  # a copy made by the SDK is one too, now that it is asked
            return client
    family = family_of(http_client)
    if family is None or not callable(getattr(target, "request", None)):
        raise TypeError(
            f"wrap() takes a client of the openai or anthropic SDK, not {type(client).__name__}"
        )
    key = hidden(getattr(target, "api_key", None))
    # It may be a function; where a token is used it is empty, or Azure's mark with spaces in it.
    if isinstance(key, str) and not (key.isascii() and key.isprintable()):
        valid_key(key)
    is_async = isinstance(http_client, family.AsyncClient)
    _check_carried(family, http_client, chosen, options, is_async=is_async)
    unwrap(target)
    if "max_retries" in options or chosen.max_retries != _USUAL.max_retries:
        target.__dict__["_smartclient_max_retries"] = target.max_retries
        target.max_retries = chosen.max_retries
    _install(target, http_client, family, chosen, is_async=is_async)
    sdk_class: Any = type(target)
    target.__class__ = _upgraded(sdk_class, is_async=is_async)
    return client


def unwrap(client: ClientT) -> ClientT:
    """Undo `wrap`, and return the client; one that is not wrapped stays as it is."""
    target: Any = client
    if not _is_wrapped(target):
        return client
    target.__class__ = type(target).__mro__[1]
    kept = target.__dict__.pop("_smartclient_max_retries", None)
    if kept is not None:
        target.max_retries = kept
    _uninstall(target, target._client)
    return client


def report_of(client: Any) -> CallReport | None:
    """The newest complete report of a wrapped client, or of an HTTP client of ours."""
    found = (getattr(one, "_transport", None) for one in (client, getattr(client, "_client", None)))
    transport = next((one for one in found if isinstance(one, (Transport, AsyncTransport))), None)
    if transport is None:
        raise TypeError(
            f"{type(client).__name__} has no reports: it is neither our client nor wrapped; "
            "call smartclient.wrap(client) first"
        )
    return transport.pipeline.last_report


def _check_effective(chosen: Settings) -> None:
    """Raise for a setting that is the SDK's, or its HTTP client's, to have."""
    usual, given = Timeout(), chosen.timeout
    if any(getattr(given, name) != getattr(usual, name) for name in _SDKS_OWN):
        raise ValueError(
            "the SDK's own timeout holds where it is wrapped: give it to its client, or to the "
            "call; first_event, idle and total of a Timeout are ours"
        )
    if chosen.stop is not None:
        raise ValueError(
            "stop has no effect where an SDK is wrapped, whose own limit is kept; give max_retries"
        )
    if not chosen.trust_env:
        raise ValueError(
            "trust_env has no effect where an SDK is wrapped: its HTTP client has read the "
            "environment; give trust_env=False to that one"
        )


def _check_settable(client: Any, http_client: Any, chosen: Settings) -> None:
    """Raise where the HTTP client has settings already that are not this client's alone."""
    transport = getattr(http_client, "_transport", None)
    if not isinstance(transport, (Transport, AsyncTransport)):
        return
    if transport.is_own:
        raise ValueError(
            "this client's HTTP client was made by smartclient, and has its settings; give them "
            "there (max_retries alone can be given here)"
        )
    is_shared = any(user is not client for user in transport.users)
    if is_shared and transport.pipeline.settings != chosen:
        raise ValueError(
            "this client shares its HTTP client with one that is wrapped already, and so its "
            "settings; give them there, or give this client an HTTP client of its own"
        )


def _check_carried(
    family: Any, http_client: Any, settings: Settings, options: dict[str, Any], *, is_async: bool
) -> None:
    """Raise when a setting was given that a transport which stays below ours would not keep."""
    given = given_names(settings, options)
    if not given:
        return
    usual = family.AsyncHTTPTransport if is_async else family.HTTPTransport
    for present in [http_client._transport, *http_client._mounts.values()]:
        below = present.inner if isinstance(present, (Transport, AsyncTransport)) else present
        if below is not None and carried(family, http_client, below, usual, settings) is None:
            raise ValueError(
                f"{' and '.join(given)} would have no effect: the client's {type(below).__name__} "
                "stays below our connections, because it is not the usual one, is patched, or has "
                "retries or another setting that they cannot take over; set it there"
            )


def _is_wrapped(client: Any) -> bool:
    return getattr(type(client), "_smartclient_wrapped", False) is True


def _install(
    client: Any, http_client: Any, family: Any, settings: Settings, *, is_async: bool
) -> None:
    """Put our transport in the place of `http_client`'s and of every proxy's."""
    present = http_client._transport
    if isinstance(present, (Transport, AsyncTransport)):
        # A copy made by `with_options` shares the HTTP client of one that is wrapped; and
        # one that we made ourselves has our transport already.
        present.users.add(client)
        return
    pipeline = Pipeline(settings)
    build = _async_transport if is_async else _sync_transport
    transport = build(family, http_client, present, pipeline)
    transport.users.add(client)
    http_client._transport = transport
    for pattern, mounted in http_client._mounts.items():
        if mounted is not None:
            http_client._mounts[pattern] = build(family, http_client, mounted, pipeline)


def _sync_transport(family: Any, http_client: Any, present: Any, pipeline: Pipeline) -> Transport:
    from .net.blocking import Connections  # sockets, not needed to import

    options = carried(family, http_client, present, family.HTTPTransport, pipeline.settings)
    connections = Connections(options, pipeline.clock) if options else None
    return Transport(family, present, pipeline, connections)


def _async_transport(
    family: Any, http_client: Any, present: Any, pipeline: Pipeline
) -> AsyncTransport:
    from .net.aio import AsyncConnections  # loads asyncio

    options = carried(family, http_client, present, family.AsyncHTTPTransport, pipeline.settings)
    connections = AsyncConnections(options, pipeline.clock) if options else None
    return AsyncTransport(family, present, pipeline, connections)


_USUAL = Settings()
_SDKS_OWN = ("connect", "pool", "write", "read")


def _uninstall(client: Any, http_client: Any) -> None:
    transport = http_client._transport
    if not isinstance(transport, (Transport, AsyncTransport)):
        return
    transport.users.discard(client)
    if transport.users or transport.is_own:
        return
    http_client._transport = transport.inner
    for pattern, mounted in http_client._mounts.items():
        if isinstance(mounted, (Transport, AsyncTransport)):
            http_client._mounts[pattern] = mounted.inner


@lru_cache(maxsize=64)
def _upgraded(sdk_class: Any, *, is_async: bool) -> Any:
    """A subclass of `sdk_class` whose `request` opens a call context, and whose copies share it."""

    def request(self: Any, cast_to: Any, options: Any, **how: Any) -> Any:
        with _CallContext(self, options) as call:
            while True:
                try:
                    return sdk_class.request(self, cast_to, call.options, **how)
                except Paused:
                    call.enter_again()

    async def request_async(self: Any, cast_to: Any, options: Any, **how: Any) -> Any:
        with _CallContext(self, options) as call:
            while True:
                try:
                    return await sdk_class.request(self, cast_to, call.options, **how)
                except Paused:
                    call.enter_again()

    return type(
        sdk_class.__name__,
        (sdk_class,),
        {
            "__module__": sdk_class.__module__,
            "__qualname__": sdk_class.__qualname__,
            "__doc__": sdk_class.__doc__,
            "_smartclient_wrapped": True,
            "request": request_async if is_async else request,
            **_copying(sdk_class),
        },
    )


def _copying(sdk_class: Any) -> dict[str, Any]:
    """Methods that make a copy of a client on the same HTTP client, and so on our transport.

    The clients of Bedrock of anthropic before 2.0 would make an HTTP client for each copy.
    """
    from inspect import signature  # loaded by every SDK

    present = getattr(sdk_class, "copy", None)
    if present is None or "http_client" not in signature(present).parameters:
        return {}

    @wraps(present)
    def copied(self: Any, **options: Any) -> Any:
        if options.get("http_client") is None:
            options["http_client"] = self._client
        return present(self, **options)

    same = [n for n in ("copy", "with_options") if getattr(sdk_class, n, None) is present]
    return dict.fromkeys(same, copied)


def _package(client: Any) -> str:
    """The SDK of `client`, which may let the errors of its HTTP client out of a stream."""
    # openai makes them its own APIConnectionError only since 3.x, anthropic does not at all.
    packages = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
    return next((name for name in ("anthropic", "openai") if name in packages), "")


def _check_under_trio(settings: Settings) -> None:
    """Raise where calls would leave by another way than was asked for."""
    names = ("proxy", "uds", "local_address", "socket_options")
    given = [name for name in names if getattr(settings, name) != getattr(_USUAL, name)]
    if given:
        raise RuntimeError(
            f"{' and '.join(given)} would have no effect under trio, where the SDK's own "
            "transport carries the call; set it there"
        )


_HOOKS = ("_prepare_options", "_prepare_request")
_CREDENTIALS = ("_api_key_provider", "_provider_runtime", "workload_identity", "_token_cache")


@lru_cache(maxsize=64)
def _has_hooks(sdk_class: Any, package: str) -> bool:
    """Whether a class signs requests, or does else what the SDK's plain client does not."""
    plain = (f"{package}._client", f"{package}._base_client")
    hooks = (getattr(sdk_class, name, None) for name in _HOOKS)
    return any(hook is not None and hook.__module__ not in plain for hook in hooks)


def _is_prepared(client: Any, options: Any, package: str) -> bool:
    """Whether the SDK prepares each attempt, and can do so more than once.

    One that sends a file has read it after the first.
    """
    content = getattr(options, "content", None)
    if options.files is not None or not isinstance(content, (bytes, str, NoneType)):
        return False
    sdk_class: Any = type(client)
    http_client = client._client
    if _has_hooks(sdk_class, package) or http_client.auth is not None:
        return True
    if http_client.event_hooks.get("request"):  # they may sign it
        return True
    return any(getattr(client, name, None) is not None for name in _CREDENTIALS)


def _settled(value: Any) -> Any:
    """`value` with lists in the place of iterators, which an attempt would use up."""
    if isinstance(value, dict):
        return {key: _settled(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, Iterator)):
        return [_settled(one) for one in value]
    return value


class _CallContext:
    """Takes the retry limit of one call for ourselves, and leaves the SDK none.

    Attributes:
        options: What the SDK's `request` is given.
    """

    def __init__(self, client: Any, options: Any) -> None:
        self.options: Any = options
        self._context: CallContext | None = None
        transport = client._client._transport
        if not isinstance(transport, (Transport, AsyncTransport)):
            return  # a copy with another HTTP client, or whose original was unwrapped
        if under_trio() and not transport.is_own:
            _check_under_trio(transport.pipeline.settings)
        package = _package(client)
        self._once = self.options = copy.copy(options)
        limit = options.get_max_retries(client.max_retries)
        self._once.max_retries = 0
        self._context = CallContext(
            pipeline=transport.pipeline,
            max_retries=limit,
            started=transport.pipeline.clock.monotonic(),
            sdk=package,
            is_prepared=_is_prepared(client, options, package),
            # anthropic: at a 401 its own retries, which are off, would do that.
            renew=getattr(getattr(client, "_token_cache", None), "invalidate", None),
        )
        if self._context.is_prepared:
            self._once.json_data = _settled(options.json_data)

    def enter_again(self) -> None:
        """Let the SDK prepare the next attempt."""
        if self._context is not None:
            self.options = self._context.prepare(self._once)

    def __enter__(self) -> Self:
        self._token = call_context.set(self._context)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        call_context.reset(self._token)
        if self._context is not None:
            self._context.give_up(error)
