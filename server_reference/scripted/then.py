"""What a rule's `then` takes: checked when it is given, never first when it is played."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias, TypeGuard, get_args

from .answers import Answer, ErrorAnswer, Faulted
from .compile import json_reply
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
    if isinstance(item, Answer | ErrorAnswer | Faulted | Fault) or callable(item):
        playable: Item = item
        return playable
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
        match op:
            case Wait(seconds):
                if not 0 <= seconds < math.inf:
                    raise _wrong(number, op, f"seconds must be at least 0, not {seconds}")
            case Head(status, _, _, _, length):
                has_head = has_head or status >= 200
                if not 100 <= status <= 999:
                    raise _wrong(number, op, f"status must be 100 to 999, not {status}")
                if length is not None and length < 0:
                    raise _wrong(number, op, f"length must be at least 0, not {length}")
            case Body() if not has_head:
                raise _wrong(number, op, "a Head must stand before it; Raw needs none")
            case Body(data) | Raw(data):
                if not isinstance(data, bytes | bytearray | memoryview):
                    raise _wrong(number, op, f"data must be bytes, not {type(data).__name__}")
            case Settings(values):
                if isinstance(values, Mapping):
                    raise _wrong(number, op, "values must be pairs of a name and a number")
                check_settings(values)
            case ResetStream(code) | GoAway(_, code) if not 0 <= code < 2**32:
                raise _wrong(number, op, f"code must be 0 to {2**32 - 1}, not {code}")
            case _:
                pass


def check_settings(values: Iterable[tuple[str, int]]) -> None:
    """Refuse SETTINGS that no frame can hold; what a client would refuse may be played.

    Raises:
        ValueError: A name is unknown, or a value out of range.
    """
    for name, value in values:
        if name not in SETTINGS:
            raise ValueError(unknown("setting of HTTP/2", name, SETTINGS))
        if not 0 <= value < 2**32:
            raise ValueError(f"setting {name} must be 0 to {2**32 - 1}, not {value}")


def _wrong(number: int, op: Op, why: str) -> ValueError:
    return ValueError(f"operation {number + 1} of the script, {type(op).__name__}: {why}")


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
        _check_names("reply", given, _JSON_REPLY)
        headers = given.get("headers") or {}
        if not isinstance(headers, Mapping):
            what = f"must be an object of texts, not {type(headers).__name__}"
            raise ValueError(f"then: headers {what}")
        pairs = tuple(headers.items())
        return tuple(json_reply(given["json"], status=given.get("status", 200), headers=pairs))
    kind = ErrorAnswer if "status" in given else Answer
    fault = _fault(given.pop("fault", None))
    if "fault" in value and not given:
        assert fault is not None
        return fault
    _check_names("error" if kind is ErrorAnswer else "answer", given, _names(kind))
    if isinstance(given.get("error"), Mapping):
        given["error"] = ErrorAnswer(**given["error"])
    try:
        return kind(**given, fault=fault)
    except TypeError as error:
        raise ValueError(f"then: {error}") from error


def _names(kind: type[Answer] | type[ErrorAnswer]) -> list[str]:
    return [one.name for one in fields(kind)]


def _check_names(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"then: {unknown(f'field of an {what}', name, known)}")


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
