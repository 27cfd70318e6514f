"""Whose API a request calls, and who calls it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal, Protocol

from ...credentials import offered_keys
from ..request import Received

__all__ = ["Clock", "Vendor", "caller_of", "key_of", "vendor_of"]

Vendor = Literal["anthropic", "openai"]


class Clock(Protocol):
    """Tells the time, in Unix seconds."""

    def now(self) -> float: ...


def vendor_of(received: Received) -> Vendor | None:
    """Whose API is called; `None` for an endpoint that is neither's."""
    if received.api is None:
        return None
    return "anthropic" if received.api == "anthropic.messages" else "openai"


def key_of(received: Received) -> str:
    """The API key as it came; empty without one."""
    return next(iter(offered_keys(dict(received.headers))), "")


def caller_of(received: Received, workspaces: Mapping[str, str]) -> str:
    """Who pays for the request: its key's workspace, or the key itself, never in clear.

    Args:
        workspaces: API key → name of the workspace (organization, project) that it belongs to.
    """
    key = key_of(received)
    if key in workspaces:
        return f"workspace:{workspaces[key]}"
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).hexdigest()
