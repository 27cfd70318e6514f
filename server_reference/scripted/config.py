"""What can be set of a scripted server."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from .clock import Clock, SystemClock
from .given import check_kind, check_methods, check_whole
from .hooks import Fault, Observer, Provider
from .nearest import unknown
from .ops import Fin, HalfClose, NoCloseNotify, Pause, Raw, Reset, Script, Wait
from .then import check_script, check_settings
from .tls import Authority

if TYPE_CHECKING:
    from .providers import CacheRules, Limits

__all__ = ["ScriptedConfig"]


_LISTS: Mapping[str, Sequence[str]] = {
    "providers": ("answer", "usage", "headers"),
    "observers": ("request", "wrote", "ended"),
    "faults": ("apply",),
}
_GREETING = (Raw, Wait, Pause, Fin, HalfClose, Reset, NoCloseNotify)


@dataclass(frozen=True, slots=True)
class ScriptedConfig:
    """Options of `server_reference.scripted`.

    Attributes:
        host: Address to listen on.
        port: 0 takes a free one.
        api_keys: Keys that are let in; without any no key is asked for.
        clock: The server's time; a `ManualClock` for tests that wait for nothing.
        seed: Of everything random.
        tls: `True` makes a certificate authority for this server (`ca_file`); an `Authority` is
            shared with others; a context is the server's side as it is; `None` is plain.
        http2: Whether HTTP/2 is spoken, by ALPN and by prior knowledge.
        http2_settings: SETTINGS that a connection begins with, by name, such as
            `{"MAX_CONCURRENT_STREAMS": 1}`.
        max_body_bytes: A larger request is answered with 413.
        rate_limits: Limits that a provider sets; `None` sets none.
        prompt_cache: How a provider keeps prompts; `None` keeps none.
        providers: What else a provider does whatever the rules say.
        observers: Told of everything that happens.
        faults: What breaks every reply, whatever the rules say, such as `faults_at({...})`.
        retry_after_ms: Milliseconds, at least 1, that every refusal without one of its own names
            in `retry-after-ms`: an SDK that sleeps in real time soon comes back, whatever
            `retry-after` says. `None` adds nothing.
        journal_entries: How many requests the journal keeps.
        greetings: Scripts by number of the connection, played before anything is read, TLS
            included: raw bytes, waits, and ways to close.
    """

    host: str = "127.0.0.1"
    port: int = 0
    api_keys: Sequence[str] = field(default=(), repr=False)
    clock: Clock = field(default_factory=SystemClock)
    seed: int = 0
    tls: ssl.SSLContext | Authority | bool | None = None
    http2: bool = True
    http2_settings: Mapping[str, int] = field(default_factory=dict)
    max_body_bytes: int = 64 * 2**20
    rate_limits: Limits | None = None
    prompt_cache: CacheRules | None = None
    providers: Sequence[Provider] = ()
    observers: Sequence[Observer] = ()
    faults: Sequence[Fault] = ()
    retry_after_ms: int | None = None
    journal_entries: int = 10_000
    greetings: Mapping[int, Script] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kind("host", self.host, str)
        check_kind("seed", self.seed, int)
        check_kind("http2", self.http2, bool)
        check_kind("tls", self.tls, bool, Authority, ssl.SSLContext, type(None))
        check_whole("port", self.port, 0, 65_535)
        check_whole("max_body_bytes", self.max_body_bytes, 0)
        check_whole("journal_entries", self.journal_entries, 1)
        check_kind("retry_after_ms", self.retry_after_ms, int, type(None))
        if self.retry_after_ms is not None and self.retry_after_ms < 1:
            raise ValueError(
                f"retry_after_ms must be at least 1, not {self.retry_after_ms}: SDKs take 0 for "
                "absent; None adds nothing"
            )
        self._check_keys()
        check_methods("clock", self.clock, "now", "sleep_async")
        for name, methods in _LISTS.items():
            check_kind(f"{name}, a list,", getattr(self, name), list, tuple)
            for one in getattr(self, name):
                check_methods(f"{name}: each", one, *methods)
        self._check_state()
        check_kind("http2_settings", self.http2_settings, Mapping)
        check_settings(list(self.http2_settings.items()))
        check_kind("greetings", self.greetings, Mapping)
        for number, script in self.greetings.items():
            check_whole("greetings: the number of a connection", number, 1)
            _check_greeting(number, script)

    def _check_state(self) -> None:
        if self.rate_limits is None and self.prompt_cache is None:
            return
        from .providers import CacheRules, Limits

        check_kind("rate_limits", self.rate_limits, Limits, type(None))
        check_kind("prompt_cache", self.prompt_cache, CacheRules, type(None))

    def _check_keys(self) -> None:
        if isinstance(self.api_keys, str):
            raise TypeError("api_keys must be a list of keys, not one string")
        check_kind("api_keys", self.api_keys, Collection)
        if not all(isinstance(key, str) and key for key in self.api_keys):
            raise ValueError("api_keys must be texts that are not empty")
        if not all(key.isascii() for key in self.api_keys):
            raise ValueError("api_keys must be ASCII: no other text is sure to arrive in a header")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """From options by name.

        Raises:
            TypeError: An option is unknown; the message names the nearest known.
            ValueError: An option's value is wrong.
        """
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise TypeError(unknown("option of a scripted server", name, known))
        return cls(**given)


def _check_greeting(number: int, script: Script) -> None:
    check_script(script)
    for op in script:
        if not isinstance(op, _GREETING):
            names = ", ".join(kind.__name__ for kind in _GREETING)
            raise ValueError(
                f"greetings[{number}]: {type(op).__name__} needs a request; a greeting is made of "
                f"{names}"
            )
