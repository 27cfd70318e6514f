"""What the numbers among the settings may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._clock import MOST_SECONDS

if TYPE_CHECKING:  # which imports this
    from ._settings import Settings

__all__ = ["check_lives", "check_waits"]


def check_waits(settings: Settings) -> None:
    """Bound what is waited for, which the system could not do for ever.

    Raises:
        ValueError: It names the setting.
    """
    for name in ("max_wait", "wait_jitter", "keepalive", "max_age"):
        value = getattr(settings, name)
        if value is not None and not -MOST_SECONDS <= value <= MOST_SECONDS:
            instead = "; use None for no limit" if name in ("keepalive", "max_age") else ""
            raise ValueError(f"{name} must be at most {MOST_SECONDS:,}{instead}")
    for name, unit in (("max_wait", " s"), ("wait_jitter", "")):
        if getattr(settings, name) < 0:
            raise ValueError(f"{name} must be at least 0{unit}, not {getattr(settings, name):g}")


def check_lives(settings: Settings) -> None:
    """Bound how long connections live.

    Raises:
        ValueError: It names the setting.
    """
    if settings.max_connections < 1:
        raise ValueError(f"max_connections must be at least 1, not {settings.max_connections}")
    if settings.max_age is not None and settings.max_age <= 0:
        raise ValueError(f"max_age must be above 0 s, not {settings.max_age:g}; use None for none")
    if settings.max_requests is not None and settings.max_requests < 1:
        raise ValueError(
            f"max_requests must be at least 1, not {settings.max_requests}; use None for no limit"
        )
    if settings.keepalive is not None and settings.keepalive < 0:
        raise ValueError(
            f"keepalive must be at least 0 s, not {settings.keepalive:g}; "
            "use None to keep idle connections for ever"
        )
