"""What is left of a rate limit, as either provider's header fields say it.

Source: Anthropic API reference, "Rate limits"; OpenAI API guide, "Rate limits".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from .callers import Vendor

__all__ = ["Level", "go_duration", "rate_headers", "rfc3339"]


@dataclass(frozen=True, slots=True)
class Level:
    """One limit at one moment.

    Attributes:
        limit: Per minute.
        remaining: What may be taken now.
        reset_in: Seconds until all of it is there again.
    """

    limit: int
    remaining: int
    reset_in: float


def rate_headers(vendor: Vendor, levels: Mapping[str, Level], *, now: float) -> dict[str, str]:
    """Fields for each level, by names such as `requests` and `input-tokens`."""
    fields: dict[str, str] = {}
    for name, level in levels.items():
        if vendor == "anthropic":
            fields[f"anthropic-ratelimit-{name}-limit"] = str(level.limit)
            fields[f"anthropic-ratelimit-{name}-remaining"] = str(level.remaining)
            fields[f"anthropic-ratelimit-{name}-reset"] = rfc3339(now + level.reset_in)
        else:
            fields[f"x-ratelimit-limit-{name}"] = str(level.limit)
            fields[f"x-ratelimit-remaining-{name}"] = str(level.remaining)
            fields[f"x-ratelimit-reset-{name}"] = go_duration(level.reset_in)
    return fields


def rfc3339(at: float) -> str:
    """A moment in UTC with whole seconds, rounded up: `2026-11-29T12:00:00Z`."""
    return f"{datetime.fromtimestamp(math.ceil(at), UTC):%Y-%m-%dT%H:%M:%SZ}"


def go_duration(seconds: float) -> str:
    """A duration as Go's `Duration.String` writes it, in milliseconds rounded up.

    `0s`, `12ms`, `1s`, `1.5s`, `6m0s`, `1h0m0s`.
    """
    # Rounded before ceil: 2.007 * 1000 is a little more than 2007.
    ms = math.ceil(round(seconds * 1000, 6))
    if 0 < ms < 1000:
        return f"{ms}ms"
    minutes, rest = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, fraction = divmod(rest, 1000)
    text = f"{whole}.{fraction:03}".rstrip("0") if fraction else str(whole)
    if hours:
        return f"{hours}h{minutes}m{text}s"
    return f"{minutes}m{text}s" if minutes else f"{text}s"
