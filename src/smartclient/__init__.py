"""The layer between an app and any LLM API: connections, retries, and where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._call import Timeout
from ._errors import (
    AuthenticationError,
    EventTooLargeError,
    ExchangeError,
    IncompleteStreamError,
    InvalidRequestError,
    MalformedReplyError,
    OverloadedError,
    RateLimitError,
    RefusedError,
    ServerError,
    SmartClientError,
    StatusError,
)
from ._settings import Settings
from .client import AsyncClient, Client, last_report
from .report import CallReport

if TYPE_CHECKING:
    from ._wrap import unwrap, wrap

__all__ = [
    "AsyncClient",
    "AuthenticationError",
    "CallReport",
    "Client",
    "EventTooLargeError",
    "ExchangeError",
    "IncompleteStreamError",
    "InvalidRequestError",
    "MalformedReplyError",
    "OverloadedError",
    "RateLimitError",
    "RefusedError",
    "ServerError",
    "Settings",
    "SmartClientError",
    "StatusError",
    "Timeout",
    "last_report",
    "unwrap",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Load what goes under an SDK only for those who put it there."""
    if name not in ("unwrap", "wrap"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _wrap

    globals().update(unwrap=_wrap.unwrap, wrap=_wrap.wrap)
    return globals()[name]
