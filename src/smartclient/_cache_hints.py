"""What a user can say about cache hints beyond on and off."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ._clock import checked_seconds

__all__ = ["CacheHints", "Tier", "checked_hints", "hints_of"]

_MODES: tuple[Literal["cautious"], Literal["full"]] = ("cautious", "full")

_STATIC = ("tools", "system")
"""Messages are never the same in every call."""

Tier: TypeAlias = Literal["tools", "system", "messages"]
"""The order in which a prompt is put together; a change loses its own tier and those after it."""


class CacheHints(Struct, frozen=True, kw_only=True):
    """How marks for the provider's prompt cache are placed.

    Args:
        mode: `cautious` marks only what was sent twice within its time to live. `full` also
            marks what is likely to be sent again, from the first call on.
        static: Parts of the prompt that are the same in every call, such as
            `("tools", "system")`; they are marked from the first call on in either mode.
        ttls: Times to live that may be chosen, such as `("5m",)`; `None` for every one that
            the model has.
        single_flight: Seconds that a call waits at most while another one is writing the
            beginning that both share; `None` lets them all write it.
        diagnostics: Ask the provider itself why a prompt was not read, and put its answer into
            the report. It keeps hashes of the prompts for that.

    Raises:
        TypeError: One of them is of another type.
        ValueError: One of them cannot be.
    """

    mode: Literal["cautious", "full"] = "cautious"
    static: tuple[Literal["tools", "system"], ...] = ()
    ttls: tuple[str, ...] | None = None
    single_flight: float | None = None
    diagnostics: bool = False

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ValueError(f'mode must be "cautious" or "full", not {self.mode!r}')
        _check_names("static", self.static, _STATIC)
        if self.ttls is not None:
            _check_names("ttls", self.ttls, None)
            if not self.ttls:
                raise ValueError("ttls must name at least one; use None for every one")
        _check_wait(self.single_flight)
        if not isinstance(self.diagnostics, bool):
            raise TypeError(f"diagnostics must be a bool, not {type(self.diagnostics).__name__}")


def checked_hints(given: Any) -> CacheHints | Literal["cautious", "full"] | None:
    """A setting as it is kept: `None` for off.

    Raises:
        TypeError: It is neither text nor `CacheHints`.
        ValueError: It is no mode.
    """
    if given is None or given is False or given == "off":
        return None
    if given is True:
        return "cautious"
    if isinstance(given, CacheHints):
        return given
    if isinstance(given, str):
        for mode in _MODES:
            if given == mode:
                return mode
        raise ValueError(f'cache_hints must be "cautious", "full" or "off", not {given!r}')
    raise TypeError(f"cache_hints must be text or CacheHints, not {type(given).__name__}")


def hints_of(given: CacheHints | str | bool) -> CacheHints:
    """What a setting means that is not off."""
    if isinstance(given, CacheHints):
        return given
    return CacheHints(mode="full" if given == "full" else "cautious")


def _check_names(name: str, given: object, known: tuple[str, ...] | None) -> None:
    if not isinstance(given, (tuple, list)) or not all(isinstance(one, str) for one in given):
        raise TypeError(f"{name} must be a tuple of strings, not {type(given).__name__}")
    for one in given:
        if known is not None and one not in known:
            raise ValueError(f"{name} must name {', '.join(known)}, not {one!r}")


def _check_wait(seconds: object) -> None:
    if seconds is None:
        return
    hint = "use None to let every call write for itself"
    checked_seconds("single_flight", seconds, most=600, hint=hint)
