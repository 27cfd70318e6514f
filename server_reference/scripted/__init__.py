"""Play any answer and any fault to a client, and judge it: a server for tests."""

from __future__ import annotations

__all__: list[str] = []
