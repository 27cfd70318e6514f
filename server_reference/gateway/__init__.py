"""In front of the engines: keys, limits, validation, metering, log and routing."""

from __future__ import annotations

__all__: list[str] = []
