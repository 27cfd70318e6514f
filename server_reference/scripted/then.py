"""What a rule's `then` takes: checked when it is given, never first when it is played."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias, TypeGuard, get_args

from .answers import Answer, ErrorAnswer, Faulted
from .compile import json_reply
from .given import check_call, check_fields, check_kind, check_number, check_whole
from .hooks import Fault
from .http2_frames import SETTINGS
from .nearest import unknown
from .ops import Body, GoAway, Head, Op, Raw, ResetStream, Script, Settings, Wait
from .playing import LiveScript
from .request import Received

__all__ = ["Item", "Then", "check_script", "check_settings", "is_script", "item_from_json", "steps"]

Item: TypeAlias = (
    str
    | Answer
    | ErrorAnswer
    | Faulted
    | Fault
    | Sequence[Op]
    | Callable[[Received], "Item | Awaitable[Item] | LiveScript"]
)
"""One thing to play: text, an answer, an error, a script, a fault, or a function of the request.

A function that is an async generator yields operations while they are played."""

Then: TypeAlias = Item | Sequence[Item]

_OPS = get_args(Op)
_MOST = 2**32 - 1
_FRAMINGS = ("chunked", "length", "close")
_JSON_REPLY = ("json", "status", "headers")


def is_script(value: object) -> TypeGuard[Script]:
    """Whether `value` is a list of operations."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and len(value) > 0
        and all(isinstance(one, _OPS) for one in value)
    )


def steps(then: Then) -> tuple[tuple[Item, ...], bool]:
    """The items of `then`, and whether they are a sequence that ends.

    Raises:
        TypeError: Something in it cannot be played.
        ValueError: A script in it cannot.
    """
    is_list = isinstance(then, list | tuple) and not is_script(then)
    items: Sequence[Any] = then if isinstance(then, list | tuple) and is_list else [then]
    if not items:
        raise ValueError("then is empty: give at least one answer, error, fault or script")
    return tuple(map(_checked, items)), is_list


def _checked(item: Any) -> Item:
    if isinstance(item, Mapping):
        return item_from_json(item)
    if isinstance(item, str):
        return Answer(item)
    if is_script(item):
        script: Script = tuple(item)
        check_script(script)
        return script
    is_class = isinstance(item, type)
    if isinstance(item, Answer | ErrorAnswer | Faulted | Fault) and not is_class:
        playable: Item = item
        return playable
    if callable(item):
        check_call("a function in then", item, awaits=True)
        called: Item = item
        return called
    raise TypeError(
        f"cannot play {type(item).__name__}: then takes text, Answer, ErrorAnswer, a fault, a list "
        "of operations, a function of the request, or a list of these"
    )


def check_script(script: Script) -> None:
    """Refuse what cannot be played.

    Raises:
        ValueError: An operation has a value that it cannot have, or a body has no head.
    """
    has_head = False
    for number, op in enumerate(script):
        if type(op) is Body and type(op.data) is bytes and has_head:
            continue  # most often, and there are many of them
        has_head = has_head or (isinstance(op, Head) and _is_final(op))
        try:
            _check(op, has_head=has_head)
        except (TypeError, ValueError) as error:
            where = f"operation {number + 1} of the script, {type(op).__name__}"
            raise ValueError(f"{where}: {error}") from None


def _is_final(head: Head) -> bool:
    return isinstance(head.status, int) and head.status >= 200


def _check(op: Op, *, has_head: bool) -> None:
    match op:
        case Wait(seconds):
            check_number("seconds", seconds, 0, math.inf, " s")
        case Head():
            _check_head(op)
        case Body() if not has_head:
            raise ValueError("a Head must stand before it; Raw needs none")
        case Body(data) | Raw(data):
            if not isinstance(data, bytes | bytearray | memoryview):
                raise TypeError(f"data must be bytes, not {type(data).__name__}")
        case Settings(values):
            if not isinstance(values, list | tuple):
                raise TypeError("values must be pairs of a name and a number")
            check_settings(values)
        case ResetStream(code):
            check_whole("code", code, 0, _MOST)
        case GoAway(last_stream_id, code):
            check_whole("last_stream_id", 0 if last_stream_id is None else last_stream_id, 0, 2**31)
            check_whole("code", code, 0, _MOST)
        case _:
            pass


def _check_head(head: Head) -> None:
    check_whole("status", head.status, 100, 999)
    check_kind("fields, pairs of a name and a value,", head.fields, list, tuple)
    for field in head.fields:
        check_kind("fields: each", field, list, tuple)
        if len(field) != 2 or not all(isinstance(one, str) for one in field):
            raise ValueError(f"fields: each is a name and a value, both texts, not {field!r}")
    check_kind("reason", head.reason, str, type(None))
    if head.framing not in _FRAMINGS:
        raise ValueError(unknown("framing", head.framing, _FRAMINGS))
    if head.length is not None:
        check_whole("length", head.length, 0)


def check_settings(values: Iterable[tuple[str, int]]) -> None:
    """Refuse SETTINGS that no frame can hold; what a client would refuse may be played.

    Raises:
        ValueError: A name is unknown, or a value out of range.
    """
    for pair in values:
        check_kind("settings: each", pair, list, tuple)
        if len(pair) != 2:
            raise ValueError(f"settings: each is a name and a number, not {pair!r}")
        name, value = pair
        if name not in SETTINGS:
            raise ValueError(unknown("setting of HTTP/2", name, SETTINGS))
        check_whole(f"setting {name}", value, 0, _MOST)


def item_from_json(value: Any) -> Item:
    """An item from plain JSON, as the admin API and files give it.

    A string is an answer's text; an object with `json` is that reply, one with `status` an
    error, any other an answer. `fault` in them is a name, or an object with `name` and the
    fault's own parameters.

    Raises:
        ValueError: A field is unknown or wrong; the message names it and the nearest known.
    """
    if isinstance(value, str):
        return Answer(value)
    if not isinstance(value, Mapping):
        raise ValueError(f"then takes a string or an object, not {type(value).__name__}")
    given = dict(value)
    if "json" in given:
        _check_names("a reply", given, _JSON_REPLY)
        headers = given.get("headers") or {}
        if not isinstance(headers, Mapping):
            what = f"must be an object of texts, not {type(headers).__name__}"
            raise ValueError(f"then: headers {what}")
        check_fields("then: headers", headers)
        pairs = tuple(headers.items())
        return tuple(json_reply(given["json"], status=given.get("status", 200), headers=pairs))
    kind = ErrorAnswer if "status" in given else Answer
    fault = _fault(given.pop("fault", None))
    if "fault" in value and not given:
        assert fault is not None
        return fault
    _check_names("an error" if kind is ErrorAnswer else "an answer", given, _names(kind))
    if given.get("error") is not None:
        given["error"] = _error(given["error"])
    if isinstance(given.get("body"), str):  # JSON has no bytes
        given["body"] = given["body"].encode()
    try:
        return kind(**given, fault=fault)
    except TypeError as error:
        raise ValueError(f"then: {error}") from error


def _error(given: Any) -> ErrorAnswer:
    """The error that breaks an answer off."""
    if isinstance(given, ErrorAnswer):  # a mapping of Python's
        return given
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ValueError(f'then: error must be an object such as {{"status": 529}}, not {kind}')
    _check_names("an error", given, _names(ErrorAnswer))
    try:
        return ErrorAnswer(**given)
    except TypeError as error:
        raise ValueError(f"then: error: {error}") from error


def _names(kind: type[Answer] | type[ErrorAnswer]) -> list[str]:
    return [one.name for one in fields(kind)]


def _check_names(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"then: {unknown(f'field of {what}', name, known)}")


def _fault(given: Any) -> Fault | None:
    """A preset by its name, with its parameters."""
    if given is None:
        return None
    from .faults import fault  # many presets, which only files and the admin API need here

    if isinstance(given, str):
        return fault(given)
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ValueError("fault: a name, or an object with name and the fault's parameters")
    parameters = dict(given)
    return fault(parameters.pop("name"), **parameters)
