"""The layer between an app and any LLM API: connections, retries, and where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._call import Timeout
from ._errors import (
    AuthenticationError,
    BudgetExceededError,
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
    from . import budgets as budgets
    from . import catalog as catalog
    from . import prompt_cache as prompt_cache
    from . import stores as stores
    from . import tokens as tokens
    from ._http_clients import (
        async_httpx2_client,
        async_httpx_client,
        httpx2_client,
        httpx_client,
    )
    from ._scope import scope
    from ._wrap import unwrap, wrap
    from .budgets import Budget
    from .ledger import Ledger
    from .net.stats import PoolStats, pool_stats

__all__ = [
    "AsyncClient",
    "AuthenticationError",
    "Budget",
    "BudgetExceededError",
    "CallReport",
    "Client",
    "EventTooLargeError",
    "ExchangeError",
    "IncompleteStreamError",
    "InvalidRequestError",
    "Ledger",
    "MalformedReplyError",
    "OverloadedError",
    "PoolStats",
    "RateLimitError",
    "RefusedError",
    "ServerError",
    "Settings",
    "SmartClientError",
    "StatusError",
    "Timeout",
    "async_httpx2_client",
    "async_httpx_client",
    "httpx2_client",
    "httpx_client",
    "last_report",
    "pool_stats",
    "scope",
    "unwrap",
    "wrap",
]


_LATER = {
    "Budget": "budgets",
    "Ledger": "ledger",
    "PoolStats": "net.stats",
    "async_httpx2_client": "_http_clients",
    "async_httpx_client": "_http_clients",
    "httpx2_client": "_http_clients",
    "httpx_client": "_http_clients",
    "pool_stats": "net.stats",
    "scope": "_scope",
    "unwrap": "_wrap",
    "wrap": "_wrap",
}
# Attributes too: `smartclient.tokens.count`.
_PACKAGES = frozenset({"budgets", "catalog", "prompt_cache", "stores", "tokens"})


def __getattr__(name: str) -> Any:
    """Load what not every program needs when it is first asked for."""
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return found
