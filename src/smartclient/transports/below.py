"""A family's own transport with our settings, for what our connections do not do.

That is trio, upgrades, what `trace` and `sni_hostname` in a request's extensions ask for, and
mocks that somebody puts into the family's classes.
"""

from __future__ import annotations

from typing import Any, Self

from msgspec.structs import replace

from ..net.options import NetOptions
from ..net.proxy import Login, Proxy
from .inner import address_of

__all__ = ["Below"]


class Below:
    """Leads each request through the transport that takes the same way as our connections.

    Args:
        family: The module `httpx` or `httpx2`.

    Attributes:
        direct: The one without a proxy.

    Raises:
        ValueError: An option names a file that is not there, or cannot be used.
    """

    def __init__(self, family: Any, options: NetOptions, *, is_async: bool) -> None:
        self._family, self._options = family, options
        self._make = family.AsyncHTTPTransport if is_async else family.HTTPTransport
        self._by_proxy: dict[Proxy | None, Any] = {}
        self.direct = self._through(None)

    def handle_request(self, request: Any) -> Any:
        return self._to(request).handle_request(request)

    async def handle_async_request(self, request: Any) -> Any:
        return await self._to(request).handle_async_request(request)

    def close(self) -> None:
        for transport in self._by_proxy.values():
            transport.close()

    async def aclose(self) -> None:
        for transport in self._by_proxy.values():
            await transport.aclose()

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    def _to(self, request: Any) -> Any:
        return self._through(self._options.proxies.to(address_of(request)[0]))

    def _through(self, proxy: Proxy | None) -> Any:
        known = self._by_proxy.get(proxy)
        # Two threads may make one each; the one that is not kept has no connection.
        return known or self._by_proxy.setdefault(proxy, self._made(proxy))

    def _made(self, proxy: Proxy | None) -> Any:
        options, family = self._options, self._family
        if proxy is not None and (
            options.local_address is not None or (options.socket_options and proxy.is_socks)
        ):
            raise RuntimeError(
                f"local_address and socket_options would have no effect on the way to {proxy} "
                f"where {family.__name__}'s own transport carries the call (under trio, for an "
                "upgrade, for trace or sni_hostname); leave them out there"
            )
        insists = options.http_version == "2"
        return self._make(
            verify=_context(options),
            trust_env=False,  # it has been read
            http1=not insists,
            http2=insists,
            limits=family.Limits(
                max_connections=options.max_connections, keepalive_expiry=options.idle_expiry
            ),
            proxy=None if proxy is None else _proxy(family, proxy, options),
            uds=options.uds,
            local_address=options.local_address,
            socket_options=list(options.socket_options) or None,
        )


def _context(options: NetOptions) -> Any:
    """Whom it trusts: a context with the protocols that the family sets in it anyway.

    So it can never change what one that our connections use offers; but the user's own
    context is the user's own here too, and the family sets what that offers.
    """
    from ..net.tls import Trust  # the family has loaded `ssl`

    trust = Trust.of(options)
    if options.http_version == "2":
        trust = replace(trust, alpn=("http/1.1", "h2"))
    return trust.context()


def _proxy(family: Any, proxy: Proxy, options: NetOptions) -> Any:
    from ..net.tls import Trust

    login = proxy.login
    is_tls = proxy.scheme == "https"
    return family.Proxy(
        # A SOCKS proxy is always given the name, and known by the older scheme for longer.
        str(replace(proxy, scheme="socks5") if proxy.is_socks else proxy),
        auth=_auth(login, family.__name__) if login is not None and proxy.is_socks else None,
        headers=list(proxy.fields if proxy.is_socks else proxy.told()),
        ssl_context=Trust.of(options).context() if is_tls else None,
    )


def _auth(login: Login, family: str) -> tuple[str, str]:
    """The user and password for a SOCKS proxy, as text."""
    texts = login.user.decode(errors="replace"), login.password.decode(errors="replace")
    if "\ufffd" in "".join(texts):
        # Not from a decoding error, which holds what it could not decode.
        raise ValueError(f"user and password of the proxy must be UTF-8 for {family}'s transport")
    return texts
