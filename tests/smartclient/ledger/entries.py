"""Reports and entries for the tests of the ledger."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from smartclient.catalog import cost, model
from smartclient.ledger import Entry
from smartclient.report import AttemptReport, CallReport
from smartclient.wire import Usage

__all__ = ["NOON", "a_report", "an_attempt", "an_entry"]

NOON = 1_795_953_600.0  # 2026-11-29 12:00 UTC


def a_report(**fields: Any) -> CallReport:
    """A call that went well, with `fields` in their place."""
    usual: dict[str, Any] = {
        "provider": "anthropic",
        "model": "claude-opus-5",
        "endpoint": "POST /v1/messages",
        "status": 200,
        "usage": Usage(uncached=1000, cache_read=0, cache_write={}, output=10),
        "request_id": "req_1",
    }
    given = usual | fields
    told = {name: given[name] for name in ("status", "usage", "model")}
    priced = cost(given["usage"], model(given["model"]))
    return CallReport(**{"attempts": [an_attempt(priced=priced, **told)]} | given)


def an_attempt(**fields: Any) -> AttemptReport:
    usual: dict[str, Any] = {
        "number": 1,
        "origin": "https://a.example:443",
        "start": 0.0,
        "duration": 1.0,
        "status": 200,
        "error": None,
        "maybe_processed": False,
        "reused": False,
        "stages": {},
    }
    return AttemptReport(**usual | fields)


def an_entry(**fields: Any) -> Entry:
    usual: dict[str, Any] = {
        "at": NOON,
        "provider": "anthropic",
        "model": "claude-opus-5",
        "endpoint": "POST /v1/messages",
        "status": 200,
        "attempts": 1,
        "uncached": 5,
        "cache_read": 3,
        "cache_write": {"5m": 2},
        "output": 1,
        "reasoning": 1,
        "cost": Decimal("0.001"),
    }
    given = usual | fields
    return Entry(**{"at_least": given["cost"]} | given)
