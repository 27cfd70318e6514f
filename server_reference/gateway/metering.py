"""Tokens that each tenant has used since the server started."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Meter", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What one tenant has used; `uncached` and `cache_read` are the parts of its input."""

    requests: int = 0
    uncached: int = 0
    cache_read: int = 0
    output: int = 0


class Meter:
    """Adds up. Requests that were cut short count with what was computed for them."""

    def __init__(self) -> None:
        self._tenants: dict[str, Usage] = {}

    def add(self, tenant: str, *, input_tokens: int, cache_read: int, output_tokens: int) -> None:
        """Charge one request to `tenant`."""
        used = self._tenants.get(tenant, Usage())
        self._tenants[tenant] = replace(
            used,
            requests=used.requests + 1,
            uncached=used.uncached + input_tokens - cache_read,
            cache_read=used.cache_read + cache_read,
            output=used.output + output_tokens,
        )

    def usage(self) -> dict[str, Usage]:
        """By tenant."""
        return dict(self._tenants)
