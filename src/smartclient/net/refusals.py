"""What a proxy answers when it does not lead to the origin, worded: who refused, what to do.

Words of the proxy itself are left out: it may repeat what it was told.
"""

from __future__ import annotations

from .._call import Origin
from .._errors import ExchangeError, ExchangeKind
from .failures import BadReplyError, reason_of
from .proxy import Proxy

__all__ = [
    "check_forwarded",
    "login_refused",
    "lost_proxy",
    "not_tunnelled",
    "refused_by_proxy",
    "refused_by_socks",
    "speaks_http2",
]

_SET_LOGIN = (
    "put user and password, percent-encoded, into its URL: "
    "proxy={0.scheme}://user:password@{0.host}:{0.port}"
)
_ASK = "ask whoever runs it, or name the host in NO_PROXY to go straight"
_AGAIN = "try again, or check from the proxy's machine that the origin can be reached"

_STATUS: dict[int, tuple[ExchangeKind, str, str]] = {
    400: ("proxy", "does not understand CONNECT", "check that it is an HTTP proxy"),
    403: ("proxy", "does not allow this host and port", _ASK),
    404: ("proxy", "knows no such host, or is no proxy", "check its URL"),
    405: ("proxy", "allows no tunnels", "take another proxy for https origins"),
    429: ("connect", "has too much to do", _AGAIN),
    500: ("connect", "failed", _AGAIN),
    502: ("connect", "could not reach the origin", _AGAIN),
    503: ("connect", "could not reach the origin, or has too much to do", _AGAIN),
    504: ("connect", "did not reach the origin in time", _AGAIN),
}

# RFC 1928, section 6.
_REPLIES: dict[int, tuple[ExchangeKind, str, str]] = {
    1: ("connect", "failed", _AGAIN),
    2: ("proxy", "does not allow this host and port", _ASK),
    3: ("connect", "has no route to the origin's network", _AGAIN),
    4: ("connect", "cannot reach the origin's host, or found no address of its name", _AGAIN),
    5: ("connect", "was refused a connection by the origin", _AGAIN),
    6: ("connect", "gave up on the way to the origin (TTL expired)", _AGAIN),
    7: ("proxy", "makes no TCP connections for others", "take another proxy"),
    8: (
        "proxy",
        "takes no address of this kind",
        "let it look up the name: write socks5h:// in place of socks5://",
    ),
}


def refused_by_proxy(origin: Origin, proxy: Proxy, status: int) -> ExchangeError:
    """An HTTP proxy answered with `status` and not with a way to `origin`."""
    if status == 407:
        return _refused(origin, proxy, "proxy", _unknown_user(proxy), "407", _advice(proxy))
    usual: tuple[ExchangeKind, str, str] = ("proxy", "opens no tunnel", _ASK)
    kind, what, advice = _STATUS.get(status, usual)
    return _refused(origin, proxy, kind, what, f"{status}", advice)


def check_forwarded(origin: Origin, forwarder: Proxy | None, status: int) -> None:
    """Raise for a reply that can only be of the proxy that a request was given to."""
    if forwarder is not None and status == 407:
        raise refused_by_proxy(origin, forwarder, status)


def refused_by_socks(origin: Origin, proxy: Proxy, reply: int, *, tried: int = 1) -> ExchangeError:
    """A SOCKS proxy answered with `reply` and not with a way to one of `tried` addresses."""
    usual: tuple[ExchangeKind, str, str] = ("proxy", "leads nowhere", "check that it speaks SOCKS5")
    kind, what, advice = _REPLIES.get(reply, usual)
    how = f"SOCKS reply {reply}" + (f" to the last of {tried} addresses" if tried > 1 else "")
    return _refused(origin, proxy, kind, what, how, advice)


def login_refused(origin: Origin, proxy: Proxy, how: str) -> ExchangeError:
    """A SOCKS proxy does not let us in."""
    return _refused(origin, proxy, "proxy", _unknown_user(proxy), how, _advice(proxy))


def speaks_http2(origin: Origin, proxy: Proxy) -> ExchangeError:
    """TLS with the proxy has chosen a protocol in which we ask for no tunnels."""
    advice = "give an ssl_context that offers http/1.1 only"
    return _failed(origin, f"the proxy {proxy} wants to speak HTTP/2", "proxy", advice)


def not_tunnelled(origin: Origin, proxy: Proxy, error: BadReplyError) -> ExchangeError:
    """What it answered is no answer, or not all of one."""
    is_closed = error.kind == "closed"
    advice = _AGAIN if is_closed else f"check that it is a proxy of the kind {proxy.scheme}"
    kind: ExchangeKind = "connect" if is_closed else "proxy"
    return _failed(origin, f"the proxy {proxy} {error}", kind, advice)


def lost_proxy(origin: Origin, proxy: Proxy, error: OSError | UnicodeError) -> ExchangeError:
    """The connection broke before the proxy has answered, or cannot be asked for this host."""
    if isinstance(error, UnicodeError):
        return _failed(
            origin, "the host is no name that a proxy can be told", "resolve", "check it"
        )
    what = f"the proxy {proxy} broke the connection ({reason_of(error)})"
    return _failed(origin, what, "connect", _AGAIN)


def _refused(
    origin: Origin, proxy: Proxy, kind: ExchangeKind, what: str, how: str, advice: str
) -> ExchangeError:
    return _failed(origin, f"the proxy {proxy} {what} ({how})", kind, advice)


def _failed(origin: Origin, what: str, kind: ExchangeKind, advice: str) -> ExchangeError:
    return ExchangeError(
        f"no connection to {origin}: {what}; {advice}", kind=kind, origin=str(origin)
    )


def _unknown_user(proxy: Proxy) -> str:
    if proxy.has_login:
        return "does not accept the user and password that it was given"
    return "asks for a user and password"


def _advice(proxy: Proxy) -> str:
    return "check them" if proxy.has_login else _SET_LOGIN.format(proxy)
