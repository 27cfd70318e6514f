"""What the scripts run: parts of the repository, not of the packages."""

from __future__ import annotations

__all__: list[str] = []
