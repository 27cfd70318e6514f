"""What a client can be told, in one frozen value, and the environment it reads."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from ._call import Timeout
from ._clock import Clock, SystemClock
from .net.options import NetOptions
from .report import CallReport

__all__ = ["Settings", "environment", "net_options", "settings_of", "timeout_of"]


class Settings(Struct, frozen=True, kw_only=True):
    """How calls are made.

    Args:
        timeout: Limits of each stage. One number is the longest silence while a reply is
            awaited or read, in seconds.
        max_retries: How often a call is sent again at most; a call's own limit, or `stop`,
            comes first.
        stop: A tenacity `stop` in place of `max_retries`.
        wait: A tenacity `wait`: seconds between attempts where the server names none.
        max_wait: Longest wait a server may ask for, in seconds; a longer one ends the retries.
        wait_jitter: Share of a wait the server asked for that is added at random.
        resend: Send a call again, once, when its connection broke after it was written.
        resend_after_timeout: Send a call again, once, when no answer came in time.
        on_report: Is given the `CallReport` of each call, in the thread that read it.
        max_connections: Connections to one origin at most.
        keepalive: Seconds that an idle connection is kept; `None` keeps it for ever.
        ca_file: Certificates to trust in place of certifi's, a PEM file.
        ssl_context: An `ssl.SSLContext` of your own, in place of ours.
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
    max_connections: int = 1000
    keepalive: float | None = 60.0
    ca_file: str | None = None
    ssl_context: Any = None
    clock: Clock = SystemClock()

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise ValueError(f"max_retries must be at least 0, not {self.max_retries}")
        if self.max_connections < 1:
            raise ValueError(f"max_connections must be at least 1, not {self.max_connections}")
        if self.keepalive is not None and self.keepalive < 0:
            raise ValueError(
                f"keepalive must be at least 0 s, not {self.keepalive:g}; "
                "use None to keep idle connections for ever"
            )
        if self.ca_file is not None and self.ssl_context is not None:
            raise ValueError("give ca_file or ssl_context, not both: a context has its own")


def settings_of(settings: Settings | None, options: dict[str, Any]) -> Settings:
    """`settings`, or the defaults, with `options` put in.

    Raises:
        TypeError: An option that does not exist, or is of the wrong type.
        ValueError: An option that cannot be.
    """
    known = Settings.__struct_fields__
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise TypeError(f"there is no setting {name!r}{meant}")
    if "timeout" in options:
        options = {**options, "timeout": timeout_of(options["timeout"], Timeout())}
    for name, kinds in _KINDS.items():
        if name in options and not (
            isinstance(options[name], kinds) and isinstance(options[name], bool) == (kinds is bool)
        ):
            wanted = "a number" if kinds == (int, float) else f"of type {_name(kinds)}"
            raise TypeError(f"{name} must be {wanted}, not {type(options[name]).__name__}")
    return msgspec.structs.replace(settings or Settings(), **options)


_KINDS: dict[str, Any] = {
    "max_retries": int,
    "max_wait": (int, float),
    "wait_jitter": (int, float),
    "resend": bool,
    "resend_after_timeout": bool,
    "max_connections": int,
}


def _name(kind: Any) -> str:
    return str(kind.__name__)


def timeout_of(value: Any, default: Timeout) -> Timeout:
    """A `Timeout` from what a caller gives: one, a number of seconds, or `None` for no limit.

    Raises:
        TypeError: Neither of these.
        ValueError: A number that is not above 0.
    """
    if isinstance(value, Timeout):
        return value
    if value is None:
        return msgspec.structs.replace(default, read=None)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"timeout must be seconds or a Timeout, not {type(value).__name__}")
    if not value > 0:
        raise ValueError(f"timeout must be above 0 s, not {value:g}; use None for no limit")
    shorter = {
        name: min(value, limit)
        for name in ("connect", "pool", "write")
        if (limit := getattr(default, name)) is not None
    }
    return msgspec.structs.replace(default, read=float(value), **shorter)


def environment(provider: str) -> tuple[str | None, str | None]:
    """API key and base URL that the provider's SDK would take from the environment."""
    prefix = provider.upper()
    key = os.environ.get(f"{prefix}_API_KEY") or None
    return key, os.environ.get(f"{prefix}_BASE_URL") or None


def net_options(settings: Settings) -> NetOptions:
    """The part of `settings` that is about connections."""
    return NetOptions(
        max_connections=settings.max_connections,
        idle_expiry=settings.keepalive,
        ca_file=settings.ca_file,
        ssl_context=settings.ssl_context,
    )
