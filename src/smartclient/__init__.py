"""The layer between an app and any LLM API: connections, retries, and where the time went."""

from __future__ import annotations

from ._call import Timeout
from ._errors import (
    AuthenticationError,
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
from ._wrap import unwrap, wrap
from .client import AsyncClient, Client, last_report
from .report import CallReport

__all__ = [
    "AsyncClient",
    "AuthenticationError",
    "CallReport",
    "Client",
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
