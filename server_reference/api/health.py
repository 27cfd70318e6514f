"""`GET /health`: whether the server lives, and whether it takes requests."""

from __future__ import annotations

from dataclasses import asdict

from .service import Health

__all__ = ["describe", "status_of"]


def status_of(health: Health) -> int:
    """200 when requests are taken, else 503."""
    return 200 if health.is_ready else 503


def describe(health: Health) -> dict[str, object]:
    """The body: `live` is true whenever it can be asked, `ready` when an engine takes work."""
    return {
        "live": True,
        "ready": health.is_ready,
        "engines": [None if stats is None else asdict(stats) for stats in health.engines],
    }
