"""Which proxy, if any, the calls to an origin take: what was set, or what the environment says.

The rules are those of curl, and of requests where curl has none: `HTTPS_PROXY` and
`HTTP_PROXY` by the origin's scheme, `ALL_PROXY` for either, `NO_PROXY` for those that go
straight. `localhost` is an origin like any other.

Source: everything.curl.dev, "Proxies" and "Proxy environment variables"; the CGI rule: CVE
2016-5385 ("httpoxy").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from .._call import Origin
from .proxy import Proxy, proxy_of

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

__all__ = ["Bypass", "Proxies", "find_proxies"]


class Bypass(Struct, frozen=True):
    """One entry of `NO_PROXY`.

    Attributes:
        host: Without dots before it; `*` is every host.
        network: Addresses, where the entry is one or names a range of them.
        port: The only one that is meant; `None` is any.
        scheme: Likewise.
        is_suffix: Only hosts below `host`, not itself (`*.example.com`).
    """

    host: str
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None
    scheme: str | None = None
    is_suffix: bool = False

    @classmethod
    def of(cls, entry: str) -> Bypass:
        scheme, found, rest = entry.lower().rpartition("://")
        host, port = _split(rest.rstrip("/") if found else rest)
        network = _network(host)
        is_suffix = host.startswith("*.")
        # As in curl: a dot before it or after it means nothing.
        host = host.removeprefix("*").strip(".") if host != "*" else host
        return cls(host, network, port, scheme or None, is_suffix)

    def covers(self, origin: Origin, address: IPv4Address | IPv6Address | None) -> bool:
        """Whether `origin` goes straight; `address` is its host where that is one."""
        if self.port not in (None, origin.port) or self.scheme not in (None, origin.scheme):
            return False
        if self.network is not None:
            return address is not None and address in self.network
        if self.host == "*":
            return True
        host = origin.host.lower().rstrip(".")
        if address is None and self.host and host.endswith(f".{self.host}"):
            return True
        return host == self.host and not self.is_suffix


class Proxies(Struct, frozen=True):
    """The proxies of a client, by the scheme of the origin.

    Attributes:
        bypasses: Origins that go straight.
    """

    http: Proxy | None = None
    https: Proxy | None = None
    bypasses: tuple[Bypass, ...] = ()

    @classmethod
    def all(cls, proxy: Proxy | None) -> Proxies:
        """`proxy` for every origin."""
        return cls(proxy, proxy)

    def to(self, origin: Origin) -> Proxy | None:
        """The proxy on the way to `origin`; `None` for a straight way."""
        proxy = self.https if origin.scheme == "https" else self.http
        if proxy is None or not self.bypasses:
            return proxy
        address = _address(origin.host)
        return None if any(b.covers(origin, address) for b in self.bypasses) else proxy


def find_proxies(environment: Mapping[str, str]) -> Proxies | ValueError:
    """The proxies that `environment` names.

    Or the error to raise where a variable names none that we can speak to. It does not show
    the value, and is returned, so that no frame that it comes through holds the environment.
    """
    found: dict[str, str] = {}
    for name in environment:
        lower = name.lower()
        if lower not in _VARIABLES or (name == "HTTP_PROXY" and "REQUEST_METHOD" in environment):
            continue  # a CGI script's HTTP_PROXY is the `proxy` header of whoever calls it
        if name == lower or lower not in environment:
            found[lower] = name  # the lower-case one comes first, though it be empty
    proxies = [
        _variable(environment, found.get(name)) or _variable(environment, found.get("all_proxy"))
        for name in ("http_proxy", "https_proxy")
    ]
    for proxy in proxies:
        if isinstance(proxy, ValueError):
            return proxy
    http, https = (proxy if isinstance(proxy, Proxy) else None for proxy in proxies)
    none = environment.get(found.get("no_proxy", ""), "")
    entries = none.replace(",", " ").split() if http or https else []
    return Proxies(http, https, tuple(map(Bypass.of, entries)))


_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def _variable(environment: Mapping[str, str], name: str | None) -> Proxy | ValueError | None:
    if name is None or not environment[name].strip():
        return None
    url = environment[name].strip()
    return proxy_of(url if "://" in url else f"http://{url}", name)


def _split(entry: str) -> tuple[str, int | None]:
    """Host and port of an entry; a bare IPv6 address has colons and no port."""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        if rest.startswith("/"):
            return host + rest, None
        port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    else:
        return entry, None
    return (host, int(port)) if port.isdecimal() else (host, None)


def _network(host: str) -> IPv4Network | IPv6Network | None:
    if not _may_be_address(host.partition("/")[0]):
        return None
    from ipaddress import ip_network

    try:
        return ip_network(host, strict=False)
    except ValueError:
        return None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    if not _may_be_address(host):
        return None
    from ipaddress import ip_address

    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _may_be_address(host: str) -> bool:
    """Spares most programs an import of 4 ms."""
    return ":" in host or host[-1:].isdecimal()
