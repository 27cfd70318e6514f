"""Clients of httpx and httpx2 whose every request goes through our policies and connections.

They are for SDKs that `wrap` does not know and that take an HTTP client (`http_client=`), and
for who calls an API with httpx itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ._pipeline import Pipeline
from ._settings import Settings, check_names, net_options, settings_of

if TYPE_CHECKING:
    import httpx
    import httpx2

__all__ = ["async_httpx2_client", "async_httpx_client", "httpx2_client", "httpx_client"]


def httpx_client(settings: Settings | None = None, **options: Any) -> httpx.Client:
    """An `httpx.Client` over our connections, with our retries and reports.

    Every request is a call: each hop of a redirect, and each attempt of an SDK, is one of its
    own. Under an SDK that sends again by itself, which its `x-stainless-retry-count` tells,
    nothing is sent again here; `wrap` makes that our job.

    Args:
        settings: How calls are made.
        options: Fields of `Settings`, put in their place, and what `httpx.Client` keeps
            itself: `auth`, `base_url`, `cookies`, `default_encoding`, `event_hooks`,
            `follow_redirects`, `headers`, `max_redirects` and `params`.

    Raises:
        ImportError: `httpx` is not installed.
        TypeError: An option that does not exist, or that is not the client's to have.
        ValueError: An option that cannot be.
    """
    client: httpx.Client = _made("httpx", settings, options, is_async=False)
    return client


def async_httpx_client(settings: Settings | None = None, **options: Any) -> httpx.AsyncClient:
    """An `httpx.AsyncClient` over our connections; takes what `httpx_client` takes.

    Under trio httpx's own transport carries the calls, with the same settings but for
    `max_age` and `max_requests`.
    """
    client: httpx.AsyncClient = _made("httpx", settings, options, is_async=True)
    return client


def httpx2_client(settings: Settings | None = None, **options: Any) -> httpx2.Client:
    """An `httpx2.Client` over our connections; takes what `httpx_client` takes."""
    client: httpx2.Client = _made("httpx2", settings, options, is_async=False)
    return client


def async_httpx2_client(settings: Settings | None = None, **options: Any) -> httpx2.AsyncClient:
    """An `httpx2.AsyncClient` over our connections; takes what `async_httpx_client` takes."""
    client: httpx2.AsyncClient = _made("httpx2", settings, options, is_async=True)
    return client


# What a client of either family keeps itself, above its transport.
_FAMILYS = frozenset(
    "auth base_url cookies default_encoding event_hooks follow_redirects headers max_redirects "
    "params".split()
)
# What it would give to its transport, which is ours, and the setting that does the same.
_TRANSPORTS = {
    "cert": "give client_cert",
    "http1": 'give http_version="2"',
    "http2": 'give http_version="2", or leave "auto", which offers it where that pays',
    "limits": "give max_connections and keepalive",
    "mounts": "give proxy, or make a client for each way",
    "proxies": "give proxy",
    "transport": "the transport is what this makes",
    "verify": "give ca_file, trust_store or ssl_context",
}


def _made(name: str, settings: Settings | None, options: dict[str, Any], *, is_async: bool) -> Any:
    for option, instead in _TRANSPORTS.items():
        if option in options:
            raise TypeError(f"{option} is not taken here: {instead}")
    check_names(options, (*Settings.__struct_fields__, *sorted(_FAMILYS)))
    family = _family(name)
    kept = {option: options.pop(option) for option in _FAMILYS & options.keys()}
    if isinstance(options.get("timeout"), family.Timeout):
        usual = (settings or Settings()).timeout
        options["timeout"] = replace(usual, **options["timeout"].as_dict())
    chosen = settings_of(settings, options)
    limits = chosen.timeout
    build = _async_transport if is_async else _sync_transport
    make = family.AsyncClient if is_async else family.Client
    return make(
        transport=build(family, chosen),
        timeout=family.Timeout(
            connect=limits.connect, read=limits.read, write=limits.write, pool=limits.pool
        ),
        trust_env=chosen.trust_env,
        **kept,
    )


def _family(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(
            f"{name} is not installed; run `pip install {name}`, or take the client of the other "
            "family",
            name=name,
        ) from error


def _sync_transport(family: Any, settings: Settings) -> Any:
    from .net.blocking import Connections
    from .transports.below import Below
    from .transports.httpx import Transport

    pipeline, options = Pipeline(settings), net_options(settings)
    connections = Connections(options, pipeline.clock)
    return Transport(family, Below(family, options, is_async=False), pipeline, connections)


def _async_transport(family: Any, settings: Settings) -> Any:
    from .net.aio import AsyncConnections
    from .transports.below import Below
    from .transports.httpx import AsyncTransport

    pipeline, options = Pipeline(settings), net_options(settings)
    connections = AsyncConnections(options, pipeline.clock)
    return AsyncTransport(family, Below(family, options, is_async=True), pipeline, connections)
