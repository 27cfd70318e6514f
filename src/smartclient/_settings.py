"""What a client can be told, in one frozen value, and the environment it reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from ._cache_hints import CacheHints, checked_hints
from ._call import Timeout
from ._clock import Clock, SystemClock
from ._setting_limits import check_lives, check_waits
from ._timeout_setting import timeout_of
from .net.options import HttpVersion, NetOptions, identity_of
from .net.proxies import Proxies, find_proxies
from .net.proxy import Proxy, proxy_of
from .net.secret import hidden
from .report import CallReport
from .wire.sse import MAX_EVENT_BYTES

if TYPE_CHECKING:
    from .catalog.lookup import CatalogLike
    from .tokens import Calibrator
else:
    CatalogLike = Calibrator = Any  # most programs set neither, and load neither

__all__ = [
    "Settings",
    "check_max_retries",
    "check_names",
    "check_way",
    "environment",
    "net_options",
    "settings_of",
]


class Settings(Struct, frozen=True, kw_only=True):
    """How calls are made.

    Args:
        timeout: Limits of each stage. One number is the longest silence while a reply is
            awaited or read, in seconds; in a stream only events with content break it.
        max_retries: How often a call is sent again at most; a call's own limit, or `stop`,
            comes first.
        stop: A tenacity `stop` in place of `max_retries`.
        wait: A tenacity `wait`: seconds between attempts where the server names none.
        max_wait: Longest wait a server may ask for, in seconds; a longer one ends the retries.
        wait_jitter: Share of a wait the server asked for that is added at random.
        resend: Send a call again, once, when its connection broke after it was written.
        resend_after_timeout: Send a call again, once, when no answer came in time.
        on_report: Is given the `CallReport` of each call, in the thread that read it.
        ledger: A `Ledger` that keeps what each call used and cost.
        cache_hints: How prompts are marked for the provider's cache: `cautious` marks what was
            sent twice, `full` also what is likely to be sent again, `off` nothing; or
            `smartclient.prompt_cache.CacheHints`, which says more.
        budgets: Each a `Budget`: what the calls of this client may use together, beside the
            budgets of a `smartclient.scope`.
        max_connections: Connections to one origin that this client uses at most; over
            HTTP/2, calls in flight.
        http_version: `auto` offers HTTP/2 where that pays, `1.1` and `2` insist on one.
        keepalive: Seconds that an idle connection is kept; `None` keeps it for ever.
        max_age: Seconds after which a connection carries no further call, so that an address
            that moved is followed; `None` sets no limit.
        max_requests: Calls that a connection carries at most; `None` sets no limit.
        max_event_bytes: The largest event of a stream that is read; a larger one ends it.
        ca_file: Certificates to trust in place of certifi's, a PEM file.
        trust_store: `certifi`, or `system` for the operating system's list, where neither
            `ca_file` nor the environment names one.
        client_cert: A PEM file with a certificate and its key, or the pair of both files, or
            these and the key's password.
        ssl_context: An `ssl.SSLContext` of your own, in place of ours.
        proxy: URL of the proxy for every origin: `http://`, `https://`, `socks5://` or
            `socks5h://`, with `user:password@` where it asks for them.
        trust_env: Whether the environment names proxies and certificates.
        uds: Path of a Unix socket that is connected to, whatever the origin.
        local_address: IP address that connections are made from.
        socket_options: What `setsockopt` is given for each socket.
        catalog: What calls are priced by: fields of `ModelFacts` by model, or a JSON file of
            them, laid over the catalog that comes with this version, or a `Catalog`.
        calibrator: What learns from every call how far counts of tokens are off, to share it
            between clients or keep it across runs; `None`: one of this client's own, which
            learns from calls under a budget.
        clock: Where time comes from; for tests.
    """

    timeout: Timeout = Timeout()
    max_retries: int = 3
    stop: Any = None
    wait: Any = None
    max_wait: float = 60.0
    wait_jitter: float = 0.1
    resend: bool = True
    resend_after_timeout: bool = False
    on_report: Callable[[CallReport], None] | None = None
    ledger: Any = None
    cache_hints: CacheHints | Literal["cautious", "full", "off"] | bool | None = "cautious"
    budgets: Sequence[Any] = ()
    max_connections: int = 1000
    http_version: HttpVersion = "auto"
    keepalive: float | None = 60.0
    max_age: float | None = 900.0
    max_requests: int | None = None
    max_event_bytes: int = MAX_EVENT_BYTES
    ca_file: str | None = None
    trust_store: Literal["certifi", "system"] = "certifi"
    client_cert: Any = None
    ssl_context: Any = None
    proxy: str | Proxy | None = None
    trust_env: bool = True
    uds: str | None = None
    local_address: str | None = None
    socket_options: Sequence[tuple[int, int, int | bytes]] = ()
    catalog: CatalogLike | None = None
    calibrator: Calibrator | None = None
    clock: Clock = SystemClock()

    def __post_init__(self) -> None:
        # First of all, so that no frame of an error holds the URL or the password.
        _settle_proxy(self)
        force_setattr(self, "client_cert", identity_of(self.client_cert))
        force_setattr(self, "timeout", timeout_of(self.timeout, Timeout()))
        for name, kinds in _KINDS.items():
            _check_kind(name, getattr(self, name), kinds)
        for name in ("stop", "wait", "on_report"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be callable, not {type(value).__name__}")
        check_max_retries(self.max_retries)
        force_setattr(self, "cache_hints", checked_hints(self.cache_hints))
        if self.max_event_bytes < 1:
            raise ValueError(f"max_event_bytes must be at least 1, not {self.max_event_bytes}")
        if self.http_version not in get_args(HttpVersion):
            raise ValueError(
                f'http_version must be "auto", "1.1" or "2", not {self.http_version!r}'
            )
        check_waits(self)
        check_lives(self)
        _check_trust(self)
        _check_objects(self)
        check_way(self.proxy, self.uds, self.local_address)
        if self.catalog is not None or self.calibrator is not None:
            from ._token_settings import catalog_from, check_calibrator  # most give neither

            force_setattr(self, "catalog", catalog_from(self.catalog))
            check_calibrator(self.calibrator)
        force_setattr(self, "socket_options", _socket_options(self.socket_options))
        if self.budgets != ():
            from .budgets import budgets_of  # only programs with one load it

            force_setattr(self, "budgets", budgets_of(self.budgets))


def _check_objects(settings: Settings) -> None:
    clock = settings.clock
    if not all(hasattr(clock, part) for part in ("now", "monotonic", "sleep", "sleep_async")):
        raise TypeError(f"clock must be a Clock, not {type(clock).__name__}")
    if settings.ledger is not None:
        from .ledger import Ledger  # loaded by whoever has made one

        if not isinstance(settings.ledger, Ledger):
            raise TypeError(
                f"ledger must be a Ledger, not {type(settings.ledger).__name__}; "
                "smartclient.ledger.Ledger(path) keeps one in a file"
            )
    context = settings.ssl_context
    if context is not None:
        from ssl import SSLContext  # loaded by whoever has made one

        if not isinstance(context, SSLContext):
            raise TypeError(f"ssl_context must be an ssl.SSLContext, not {type(context).__name__}")


def _check_trust(settings: Settings) -> None:
    if settings.trust_store not in ("certifi", "system"):
        raise ValueError(
            f"trust_store must be 'certifi' or 'system', not {settings.trust_store!r}; name a "
            "file of your own with ca_file"
        )
    if settings.ca_file is not None and settings.trust_store == "system":
        raise ValueError("give ca_file or trust_store='system', not both: a file is a list itself")
    if settings.ssl_context is None:
        return
    others = {"ca_file": settings.ca_file, "client_cert": settings.client_cert}
    given = [name for name, value in others.items() if value is not None]
    given += ["trust_store"] if settings.trust_store != "certifi" else []
    if given:
        raise ValueError(f"give {given[0]} or ssl_context, not both: a context has its own")


def settings_of(settings: Settings | None, options: dict[str, Any]) -> Settings:
    """`settings`, or the defaults, with `options` put in.

    Raises:
        TypeError: An option that does not exist, or is of the wrong type.
        ValueError: An option that cannot be.
    """
    if isinstance(options.get("proxy"), str):
        options["proxy"] = proxy_of(options["proxy"])  # in place: no frame keeps the URL
    if settings is not None and not isinstance(settings, Settings):
        raise TypeError(f"settings must be a Settings, not {type(settings).__name__}")
    check_names(options, Settings.__struct_fields__)
    return msgspec.structs.replace(settings or Settings(), **options)


def check_names(options: Iterable[str], known: Sequence[str]) -> None:
    """Raise for an option that is not among the `known` ones.

    Raises:
        TypeError: The first of them, with the nearest known one.
    """
    for name in options:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise TypeError(f"there is no setting {name!r}{meant}")


_KINDS: dict[str, tuple[type, ...]] = {
    "max_wait": (int, float),
    "wait_jitter": (int, float),
    "resend": (bool,),
    "resend_after_timeout": (bool,),
    "max_connections": (int,),
    "keepalive": (int, float, NoneType),
    "max_age": (int, float, NoneType),
    "max_requests": (int, NoneType),
    "max_event_bytes": (int,),
    "ca_file": (str, NoneType),
    "trust_env": (bool,),
    "uds": (str, NoneType),
    "local_address": (str, NoneType),
}


def _settle_proxy(settings: Settings) -> None:
    proxy: Any = settings.proxy
    if isinstance(proxy, str):
        proxy = proxy_of(proxy)
    force_setattr(settings, "proxy", proxy if isinstance(proxy, Proxy) else None)
    if isinstance(proxy, ValueError):
        raise proxy
    if proxy is not None and not isinstance(proxy, Proxy):
        raise TypeError(f"proxy must be a URL, not {type(proxy).__name__}")


def _socket_options(options: Any) -> tuple[tuple[int, int, int | bytes], ...]:
    if not isinstance(options, (tuple, list)):
        raise TypeError(f"socket_options must be a list, not {type(options).__name__}")
    if not options:
        return ()
    from .net.tcp import socket_options_of  # with `socket`

    return socket_options_of(options)


def check_way(proxy: object, uds: str | None, local_address: str | None) -> None:
    """Raise where one of these would leave the other without effect, or cannot be.

    Raises:
        ValueError: It would.
    """
    if uds is not None:
        if proxy is not None:
            raise ValueError(
                f"uds leads to the origin itself, and {proxy} would have to be on the way; "
                "give one of them"
            )
        if local_address is not None:
            raise ValueError("a Unix socket has no IP address; give uds or local_address")
        from .net.tcp import check_unix_path

        check_unix_path(uds)
    if local_address is not None:
        from .net.tcp import numeric_addresses

        if numeric_addresses(local_address, 0) is None:
            raise ValueError(
                f"local_address must be an IP address of this machine, not {local_address!r}"
            )


def check_max_retries(value: int) -> None:
    """Raise unless `value` is a number of retries, for every call or for one."""
    _check_kind("max_retries", value, (int,))
    if value < 0:
        raise ValueError(f"max_retries must be at least 0, not {value}")


def _check_kind(name: str, value: Any, kinds: tuple[type, ...]) -> None:
    is_kind = isinstance(value, kinds) and isinstance(value, bool) == (bool in kinds)
    if is_kind and value == value:
        return
    wanted = "a number" if float in kinds else f"of type {kinds[0].__name__}"
    shown = "nan" if is_kind else type(value).__name__
    raise (ValueError if is_kind else TypeError)(f"{name} must be {wanted}, not {shown}")


def environment(provider: str) -> tuple[str | None, str | None]:
    """API key and base URL that the provider's SDK would take from the environment."""
    prefix = provider.upper()
    key = os.environ.get(f"{prefix}_API_KEY") or None
    return hidden(key), os.environ.get(f"{prefix}_BASE_URL") or None


def net_options(settings: Settings, variables: Mapping[str, str] | None = None) -> NetOptions:
    """The part of `settings` that is about connections.

    Args:
        variables: Where proxies are looked for, if `settings` allow it and name none; `None`:
            in the environment.

    Raises:
        ValueError: A variable names no proxy.
    """
    proxies = Proxies()
    if isinstance(settings.proxy, Proxy):
        proxies = Proxies.all(settings.proxy)
    elif settings.trust_env and settings.uds is None:
        found = find_proxies(os.environ if variables is None else variables)
        del variables  # it may hold keys, and no frame of an error is to show them
        if isinstance(found, ValueError):
            raise found
        proxies = found
    return NetOptions(
        max_connections=settings.max_connections,
        http_version=settings.http_version,
        idle_expiry=settings.keepalive,
        max_age=settings.max_age,
        max_requests=settings.max_requests,
        ca_file=settings.ca_file,
        ssl_context=settings.ssl_context,
        trust_store=settings.trust_store,
        client_cert=settings.client_cert,
        trust_env=settings.trust_env,
        proxies=proxies,
        uds=settings.uds,
        local_address=settings.local_address,
        socket_options=tuple(settings.socket_options),
    )
