"""What our connections take over from the transport of an SDK's HTTP client.

The family's transports keep what they were given in private attributes of their pools, with
the same names in httpx and httpx2, and in all their versions since 0.27.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from ._call import Headers
from ._settings import Settings, check_way, net_options
from .net.options import ALPN, HttpVersion, NetOptions
from .net.proxies import Proxies
from .net.proxy import Login, Proxy, ProxyScheme

__all__ = ["SocketOptions", "carried", "given_names"]

SocketOptions: TypeAlias = tuple[tuple[int, int, int | bytes], ...]

_USUAL = Settings()
_LIVES = ("max_connections", "keepalive", "max_age", "max_requests")
_TRUST = ("ca_file", "trust_store", "client_cert", "ssl_context")
_WAY = ("proxy", "uds", "local_address", "socket_options")
_MOST_CONNECTIONS = 1_000_000  # what "no limit" comes to
_USUAL_EXPIRY = 5.0  # of the family, which costs a handshake on nearly every call

# How httpx speaks to them: a SOCKS proxy is always given the name.
_SCHEMES: dict[bytes, ProxyScheme] = {
    b"http": "http",
    b"https": "https",
    b"socks5": "socks5h",
    b"socks5h": "socks5h",
}


def given_names(settings: Settings, options: dict[str, Any]) -> list[str]:
    """The settings about connections that were given, whatever their values."""
    return [
        name
        for name in (*_LIVES, "http_version", *_TRUST, *_WAY)
        if name in options or getattr(settings, name) != getattr(_USUAL, name)
    ]


def carried(
    family: Any, http_client: Any, present: Any, usual: Any, settings: Settings
) -> NetOptions | None:
    """Options that do what `present` does, `settings` first; `None` when it must stay below ours.

    It stays when it is not exactly the family's own class (`usual`), and when it does what our
    connections do not: retries of its own, a local address by name. One that somebody has
    patched (respx and pytest-httpx do) carries the calls as long as it is.

    Raises:
        ValueError: A setting and something that `present` was given exclude each other.
    """
    pool: Any = getattr(present, "_pool", None)
    special = ("_proxy", "_retries")
    if type(present) is not usual or pool is None or any(getattr(pool, n, None) for n in special):
        return None
    way = _way_of(pool, http_client, settings)
    if way is None:
        return None
    own = any(getattr(settings, name) != getattr(_USUAL, name) for name in _TRUST)
    version = _http_version(pool, settings)
    return msgspec.structs.replace(
        net_options(settings, {}),  # the family has read the environment already
        ssl_context=(
            settings.ssl_context if own else _context_of(family, http_client, pool, version)
        ),
        proxy_context=None if own else _proxy_context(pool),
        http_version=version,
        **_limits_of(pool, settings),
        **way,
    )


def _limits_of(pool: Any, settings: Settings) -> dict[str, Any]:
    """The family's limits, each where no setting asks for another.

    How many idle ones it keeps is left out: ours belong to all who share them.
    """
    limits: dict[str, Any] = {}
    if settings.max_connections == _USUAL.max_connections:
        limits["max_connections"] = min(pool._max_connections, _MOST_CONNECTIONS)
    expiry = getattr(pool, "_keepalive_expiry", _USUAL_EXPIRY)
    if settings.keepalive == _USUAL.keepalive and expiry != _USUAL_EXPIRY:
        limits["idle_expiry"] = expiry
    if settings.max_requests is None and not getattr(pool, "_max_keepalive_connections", 1):
        limits["max_requests"] = 1  # it keeps none
    return limits


def _http_version(pool: Any, settings: Settings) -> HttpVersion:
    """What is spoken: the family's own choice, unless a setting insists on another."""
    version = settings.http_version
    if version == "auto" and not getattr(pool, "_http2", False):
        return "1.1"
    if version == "auto" and not getattr(pool, "_http1", True):
        return "2"
    return version


def _context_of(family: Any, http_client: Any, pool: Any, version: HttpVersion) -> Any:
    """Whom connections trust: one context for all clients that an SDK made for itself.

    Each of them builds its own, to the same end; calls share connections by identity.
    """
    kind = type(http_client)
    if kind.__name__ not in _SDKS_OWN or kind.__module__ not in _SDKS:
        context = pool._ssl_context
    else:
        where = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        known = _shared(family.__name__, kind.__module__, version, *where)
        context = known.setdefault("", pool._ssl_context)
    # The family tells its contexts what to offer before each handshake.
    context.set_alpn_protocols(ALPN[version])
    return context


# Private classes: whom a user gives an HTTP client, that client is of another class.
_SDKS = frozenset({"openai._base_client", "anthropic._base_client"})
_SDKS_OWN = frozenset({"SyncHttpxClientWrapper", "AsyncHttpxClientWrapper"})


@lru_cache(maxsize=16)
def _shared(*key: str | None) -> dict[str, Any]:
    """The context of the first client with this key."""
    return {}


def _way_of(pool: Any, http_client: Any, settings: Settings) -> dict[str, Any] | None:
    """How connections leave this machine; `None` for a way that is not ours."""
    proxy = _proxy_of(pool) if settings.proxy is None else settings.proxy
    uds = getattr(pool, "_uds", None) if settings.uds is None else settings.uds
    local = settings.local_address
    local = getattr(pool, "_local_address", None) if local is None else local
    options: SocketOptions | None = tuple(settings.socket_options)
    if not options:
        options = _socket_options(http_client, getattr(pool, "_socket_options", None) or ())
    if proxy is _FOREIGN or options is None:
        return None
    try:
        check_way(None, None, local)
    except ValueError:  # a name: whoever it belongs to goes on looking it up
        return None
    check_way(proxy, uds, local)
    return {
        "proxies": Proxies.all(proxy if isinstance(proxy, Proxy) else None),
        "uds": uds,
        "local_address": local,
        "socket_options": options,
    }


_FOREIGN = object()  # a proxy that is not spoken to as ours are


def _proxy_of(pool: Any) -> object:
    url = getattr(pool, "_proxy_url", None)
    if url is None:
        return None
    scheme = _SCHEMES.get(url.scheme)
    fields = getattr(pool, "_proxy_headers", None) or ()
    if scheme is None or any(set(b"\r\n\0") & {*name, *value} for name, value in fields):
        return _FOREIGN
    auth = getattr(pool, "_proxy_auth", None)
    usual_port = {"http": 80, "https": 443}.get(scheme, 1080)
    return Proxy(
        scheme=scheme,
        host=url.host.decode("ascii").strip("[]"),
        port=url.port or usual_port,
        login=None if auth is None else Login(*auth),
        fields=Headers((n.decode("latin-1"), v.decode("latin-1")) for n, v in fields),
    )


def _proxy_context(pool: Any) -> Any:
    """Whom an https proxy is trusted by: a context of its own, not the one for origins."""
    url = getattr(pool, "_proxy_url", None)
    context = getattr(pool, "_proxy_ssl_context", None)
    if context is None and url is not None and url.scheme == b"https":
        from .net.tls import Trust  # loaded by whom we wrap

        context = Trust.of(NetOptions()).context()
    return context


def _socket_options(http_client: Any, given: Iterable[Any]) -> SocketOptions | None:
    """What `given` adds to ours: nothing if it is only the keepalive of an SDK's own client."""
    import socket  # loaded by whom we wrap

    options = tuple(tuple(option) for option in given)
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_KEEPALIVE")
    usual = {(socket.IPPROTO_TCP, getattr(socket, name, None)) for name in names}
    usual.add((socket.SOL_SOCKET, socket.SO_KEEPALIVE))
    packages = {kind.__module__.partition(".")[0] for kind in type(http_client).__mro__}
    is_sdks_own = not packages.isdisjoint(("openai", "anthropic"))
    if is_sdks_own and all(option[:2] in usual for option in options):
        return ()
    return options if all(len(option) == 3 for option in options) else None
