"""Conditions of a rule: each says why a request does not meet it.

Prompt text in these messages is cut short, and header values are never in them.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypedDict, get_args

from .given import check_call
from .nearest import unknown
from .request import Api, Received

__all__ = ["CONDITIONS", "Condition", "Conditions", "conditions_of", "describe", "short"]

_SHOWN = 60

Condition: TypeAlias = Callable[[Received], str | None]
"""Says why a request does not match, or `None` when it does."""


class Conditions(TypedDict, total=False):
    """What a rule may ask of a request.

    Attributes:
        when: A function of the request.
        path: The path, with `*` for any part.
        api: `anthropic.messages`, `openai.chat` or `openai.responses`, likewise.
        model: The model, likewise.
        system: A part of the system prompt.
        user: A part of the last user message's text.
        matches: A regular expression, searched in that text.
        tool_result: Whether the newest turn brings a tool's result.
        turn: Number of the turn, from 1, or several.
        header: Values by name, with `*` for any part; `None` where it must be absent.
        connection: Number of the connection on this server, from 1, or several.
        attempt: Number of the attempt of the same call, from 1, or several.
        stream: Whether a stream is asked for.
    """

    when: Callable[[Received], bool] | None
    path: str | None
    api: str | None
    model: str | None
    system: str | None
    user: str | None
    matches: str | None
    tool_result: bool | None
    turn: int | Sequence[int] | None
    header: Mapping[str, str | None] | None
    connection: int | Sequence[int] | None
    attempt: int | Sequence[int] | None
    stream: bool | None


CONDITIONS = frozenset(Conditions.__annotations__)


def conditions_of(given: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Conditions by their names, each value checked.

    Raises:
        ValueError: A name is unknown, or a value can never be met.
    """
    for name in given:
        if name not in _KINDS:
            raise ValueError(unknown("condition of a rule", name, _KINDS))
    return tuple(_KINDS[name](value) for name, value in given.items())


def describe(given: Mapping[str, Any]) -> str:
    """The conditions in one line, headers by name only."""
    shown = {k: list(v) if isinstance(v, Mapping) else v for k, v in given.items()}
    return ", ".join(f"{name}={short(value)}" for name, value in shown.items())


def short(value: object) -> str:
    """`value` as a message shows it."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _glob(name: str, read: Callable[[Received], str | None], wanted: str) -> Condition:
    _check_type(name, wanted, str)

    def why(received: Received) -> str | None:
        found = read(received)
        if found is not None and (found == wanted or fnmatch.fnmatchcase(found, wanted)):
            return None
        return f"{name} is {short(found)}, not {short(wanted)}"

    return why


def _api(wanted: str) -> Condition:
    condition = _glob("api", lambda received: received.api, wanted)
    if not fnmatch.filter(get_args(Api), wanted):
        raise ValueError(unknown("api", wanted, get_args(Api)))
    return condition


def _part(name: str, read: Callable[[Received], str | None], wanted: str) -> Condition:
    _check_type(name, wanted, str)

    def why(received: Received) -> str | None:
        found = read(received)
        if found is not None and wanted in found:
            return None
        return f"{name} {short(found)} does not hold {short(wanted)}"

    return why


def _pattern(wanted: str) -> Condition:
    _check_type("matches", wanted, str)
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise ValueError(f"matches: {wanted!r} is no regular expression: {error}") from error

    def why(received: Received) -> str | None:
        if pattern.search(received.last_user_text or ""):
            return None
        return f"user {short(received.last_user_text)} does not match {short(wanted)}"

    return why


def _flag(name: str, read: Callable[[Received], bool], wanted: bool) -> Condition:
    _check_type(name, wanted, bool)
    return lambda received: None if read(received) is wanted else f"{name} is {not wanted}"


def _number(name: str, read: Callable[[Received], int], wanted: int | Sequence[int]) -> Condition:
    if not isinstance(wanted, int | list | tuple | set | frozenset | range):
        _check_type(name, wanted, int)
    numbers = [wanted] if isinstance(wanted, int) else list(wanted)
    for number in numbers:
        _check_type(name, number, int)
    if not numbers or min(numbers) < 1:
        raise ValueError(f"{name} counts from 1, not {wanted!r}")

    def why(received: Received) -> str | None:
        found = read(received)
        return None if found in numbers else f"{name} is {found}, not {short(wanted)}"

    return why


def _headers(wanted: Mapping[str, str | None]) -> Condition:
    """Values are compared, but never shown: one may be a key."""
    _check_type("header", wanted, Mapping)
    for field, value in wanted.items():
        _check_type("header: each name", field, str)
        if value is not None:
            _check_type(f"header[{field!r}]", value, str)

    def why(received: Received) -> str | None:
        for name, value in wanted.items():
            found = received.header(name.lower())
            if value is None and found is not None:
                return f"header {name!r} is there"
            if value is not None and found is None:
                return f"header {name!r} is not there"
            if value is not None and not fnmatch.fnmatchcase(found or "", value):
                return f"header {name!r} has another value"
        return None

    return why


def _function(when: Callable[[Received], bool]) -> Condition:
    try:
        check_call("when", when)
    except TypeError as error:
        raise ValueError(str(error)) from None
    name = getattr(when, "__name__", repr(when))
    return lambda received: None if when(received) else f"when ({name}) says no"


def _check_type(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} must be {kind.__name__}, not {type(value).__name__}")


_KINDS: Mapping[str, Callable[[Any], Condition]] = {
    "path": partial(_glob, "path", lambda r: r.path),
    "api": _api,
    "model": partial(_glob, "model", lambda r: r.model),
    "system": partial(_part, "system", lambda r: r.system),
    "user": partial(_part, "user", lambda r: r.last_user_text),
    "matches": _pattern,
    "tool_result": partial(_flag, "tool_result", lambda r: r.has_tool_result),
    "turn": partial(_number, "turn", lambda r: r.turn),
    "header": _headers,
    "connection": partial(_number, "connection", lambda r: r.connection),
    "attempt": partial(_number, "attempt", lambda r: r.attempt),
    "stream": partial(_flag, "stream", lambda r: r.is_stream),
    "when": _function,
}
