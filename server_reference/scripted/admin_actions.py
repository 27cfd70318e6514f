"""What the admin API does: one method per endpoint, without HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from .clock import TurnedClock
from .nearest import unknown
from .rules import rule_from_json
from .scope import CallScope
from .server import ScriptedServer

__all__ = ["Actions", "AdminError", "CallerError"]

_Query = Mapping[str, str]
_Action = Callable[[_Query, Any], object]
_MOST_ENTRIES = 1000


class AdminError(Exception):
    """A request that is refused, with the status that says so, and for 405 what is allowed."""

    def __init__(self, status: int, message: str, *, allow: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.allow = allow


class CallerError(Exception):
    """The error that a caller in another language got, by its text."""


class Actions:
    """The endpoints, of one server."""

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._scopes: dict[int, CallScope] = {}
        self._routes: dict[str, dict[str, _Action]] = {
            "/": {"GET": self.index},
            "/rules": {"GET": self.rules, "PUT": self.put_rules},
            "/reset": {"POST": self.reset},
            "/journal": {"GET": self.journal},
            "/counters": {"GET": self.counters},
            "/verdict": {"GET": self.verdict},
            "/calls": {"POST": self.open_call},
            "/calls/outcome": {"POST": self.close_call},
            "/clock": {"GET": self.clock},
            "/clock/advance": {"POST": self.advance},
        }

    def find(self, method: str, path: str) -> _Action:
        """The action of an endpoint.

        Raises:
            AdminError: There is none.
        """
        if path not in self._routes:
            raise AdminError(404, unknown("endpoint of the admin API", path, self._routes))
        methods = self._routes[path]
        if method not in methods:
            why = f"{path} takes {' or '.join(methods)}, not {method}"
            raise AdminError(405, why, allow=", ".join(methods))
        return methods[method]

    def index(self, query: _Query, body: Any) -> object:
        """The server's address, and the endpoints."""
        endpoints = [f"{m} {path}" for path, methods in self._routes.items() for m in methods]
        return {"base_url": self._server.base_url, "endpoints": endpoints}

    def rules(self, query: _Query, body: Any) -> object:
        """The rules, and how often each was played."""
        book = self._server.rules
        return {
            "rules": [
                {"name": one.name, "times": one.times, "played": book.played(one)}
                for one in book.rules
            ]
        }

    def put_rules(self, query: _Query, body: Any) -> object:
        """Take `{"rules": [...]}` in place of all rules."""
        given = body.get("rules") if isinstance(body, dict) else body
        if not isinstance(given, list):
            raise AdminError(400, 'send {"rules": [...]}, each an object with then')
        made = []
        for number, one in enumerate(given):
            try:
                made.append(rule_from_json(one))
            except (TypeError, ValueError) as error:
                raise AdminError(400, f"rules[{number}]: {error}") from error
        self._server.rules.replace(made)
        return self.rules(query, None)

    def reset(self, query: _Query, body: Any) -> object:
        """Begin anew: rules from their start, limits full, no prompt kept, nothing seen.

        Calls that a caller opened, and perhaps died in, are watched no longer.
        """
        with self._lock:
            left, self._scopes = self._scopes, {}
        for scope in left.values():
            scope.__exit__(None, None, None)
        self._server.reset()
        return {}

    def journal(self, query: _Query, body: Any) -> object:
        """Requests with their replies: `?after=NUMBER`, `?limit=1000`."""
        limit = _whole(query, "limit", _MOST_ENTRIES)
        self._server.settle()
        journal = self._server.journal
        entries = journal.entries(after=_whole(query, "after", 0))[:limit]
        connections = journal.connections()
        newest = connections[max(0, len(connections) - limit) :]
        return {
            "entries": [entry.to_dict() for entry in entries],
            "connections": [one.to_dict() for one in newest],
            "num_forgotten": journal.num_forgotten,
        }

    def counters(self, query: _Query, body: Any) -> object:
        """The counts."""
        return self._server.counters().to_dict()

    def verdict(self, query: _Query, body: Any) -> object:
        """What the client did wrong: `?max_attempts=5`, `?ignore=RULE,RULE`."""
        ignore = [name for name in query.get("ignore", "").split(",") if name]
        try:
            verdict = self._server.verdict(
                max_attempts=_whole(query, "max_attempts", 5), ignore=ignore
            )
        except ValueError as error:
            raise AdminError(400, str(error)) from error
        return verdict.to_dict()

    def open_call(self, query: _Query, body: Any) -> object:
        """Watch a call; `{"user": "..."}` tells it from others at the same time."""
        user = body.get("user") if isinstance(body, dict) else None
        scope = self._server.call(user=user)
        try:
            scope.__enter__()
        except RuntimeError as error:
            raise AdminError(409, str(error)) from error
        with self._lock:
            self._scopes[scope.number] = scope
        return {"call": scope.number}

    def close_call(self, query: _Query, body: Any) -> object:
        """Report a call: `{"call": 1}` with `text`, `error` (a text) or `abandoned`."""
        given = body if isinstance(body, dict) else {}
        number, text = given.get("call"), given.get("text")
        if not isinstance(text, str | None):
            raise AdminError(400, f"text must be a text, not {type(text).__name__}")
        with self._lock:
            scope = self._scopes.pop(number, None) if isinstance(number, int) else None
        if scope is None:
            raise AdminError(404, "no such call is watched; open it by POST /calls")
        error = given.get("error")
        try:
            scope.outcome(
                text,
                error=None if error is None else CallerError(str(error)),
                abandoned=given.get("abandoned") is True,
            )
        except ValueError as wrong:
            with self._lock:
                self._scopes[scope.number] = scope
            raise AdminError(400, str(wrong)) from wrong
        scope.__exit__(None, None, None)
        return {}

    def clock(self, query: _Query, body: Any) -> object:
        """The server's time."""
        clock = self._server.clock
        return {"now": clock.now(), "is_manual": isinstance(clock, TurnedClock)}

    def advance(self, query: _Query, body: Any) -> object:
        """Let `{"seconds": 5}` pass on a manual clock."""
        clock = self._server.clock
        if not isinstance(clock, TurnedClock):
            raise AdminError(409, "the server runs on the machine's time; give it a manual clock")
        seconds = body.get("seconds") if isinstance(body, dict) else None
        if not isinstance(seconds, int | float) or isinstance(seconds, bool):
            raise AdminError(400, 'send {"seconds": 5}')
        try:
            clock.advance(seconds)
        except ValueError as error:
            raise AdminError(400, str(error)) from error
        return self.clock(query, None)


def _whole(query: _Query, name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isdecimal() or len(text) > 18:
        raise AdminError(400, f"{name} must be a whole number from 0, not {text[:40]!r}")
    return int(text)
