"""A proxy as a value: where it is and what it is told, with its secrets out of sight.

Two of them are equal, and may share connections, when everything is equal, credentials
included; nothing that shows one shows these.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any, Literal, TypeAlias
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from msgspec import Struct

from .._call import Headers

__all__ = ["Login", "Proxy", "ProxyScheme", "proxy_of"]

ProxyScheme: TypeAlias = Literal["http", "https", "socks5", "socks5h"]

_PORTS: dict[str, tuple[ProxyScheme, int]] = {
    "http": ("http", 80),
    "https": ("https", 443),
    "socks5": ("socks5", 1080),
    "socks5h": ("socks5h", 1080),
}
_KNOWN = "http://, https://, socks5:// or socks5h://"
_MOST_SOCKS_BYTES = 255  # RFC 1929, section 2: a length is one byte


class Login(Struct, frozen=True):
    """A user and password, percent-decoded; never shown."""

    user: bytes
    password: bytes

    @property
    def basic(self) -> str:
        """The value of a `proxy-authorization` field."""
        login = self.user + b":" + self.password
        return "Basic " + b2a_base64(login, newline=False).decode("ascii")

    def __repr__(self) -> str:
        return "Login(not shown)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class Proxy(Struct, frozen=True, kw_only=True):
    """A proxy on the way to an origin.

    Attributes:
        scheme: How it is spoken to. `socks5` is given addresses that are looked up here,
            `socks5h` the names.
        login: User and password; `None` for none.
        fields: Further header fields for an HTTP proxy. Their values may be secrets.
    """

    scheme: ProxyScheme
    host: str
    port: int
    login: Login | None = None
    fields: Headers = Headers()

    @property
    def is_socks(self) -> bool:
        return self.scheme in ("socks5", "socks5h")

    def told(self) -> Headers:
        """The header fields that an HTTP proxy gets: who we are, and what was asked for."""
        if self.login is None or self.fields.get("proxy-authorization") is not None:
            return self.fields
        return Headers([("proxy-authorization", self.login.basic), *self.fields])

    @property
    def has_login(self) -> bool:
        return self.login is not None or self.fields.get("proxy-authorization") is not None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({self})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", str(self))]


def proxy_of(url: str, name: str = "proxy") -> Proxy | ValueError:
    """The proxy that `url` names, or the error to raise, which does not show it.

    It is returned, so that no frame that an error comes through holds the URL.

    Args:
        name: Where the URL stands: a setting, or a variable of the environment.
    """
    if any(mark < " " or mark == "\x7f" for mark in url.strip()):
        # `urlsplit` drops line breaks in silence, and a password without them is another one.
        return ValueError(f"{name} has a line break or a control character in it")
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return ValueError(f"the host or port of {name} cannot be read; a port is 1 to 65535")
    known = _PORTS.get(parts.scheme.lower())
    if known is None or not url.strip().lower().startswith(f"{parts.scheme.lower()}://"):
        # A long one is no scheme, but may be a password in the wrong place.
        scheme = parts.scheme if len(parts.scheme) <= 8 and "://" in url else ""
        begins = f", not with {scheme}:" if scheme else ""
        return ValueError(f"{name} must begin with {_KNOWN}{begins}")
    if not parts.hostname or port == 0:
        return ValueError(f"{name} names no host or port; write {parts.scheme}://host:port")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        return ValueError(
            f"{name} must end after host and port; percent-encode '/', '?', '#' and '@' "
            "in its user and password"
        )
    return _with_login(parts, known, port, name)


def _with_login(
    parts: SplitResult, known: tuple[ProxyScheme, int], port: int | None, name: str
) -> Proxy | ValueError:
    scheme, usual_port = known
    login = None
    if parts.username or parts.password:
        login = Login(
            unquote_to_bytes(parts.username or ""), unquote_to_bytes(parts.password or "")
        )
        if scheme in ("http", "https") and b":" in login.user:
            return ValueError(f"the user in {name} has a colon, which HTTP proxies cannot be told")
        if max(len(login.user), len(login.password)) > _MOST_SOCKS_BYTES and (
            scheme in ("socks5", "socks5h")
        ):
            return ValueError(
                f"user and password in {name} may have {_MOST_SOCKS_BYTES} bytes each for SOCKS"
            )
    host = parts.hostname or ""
    if not host.isascii():
        return ValueError(f"the host in {name} has characters outside ASCII; write its xn-- form")
    return Proxy(scheme=scheme, host=host, port=port or usual_port, login=login)
