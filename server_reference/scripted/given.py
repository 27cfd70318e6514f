"""What a test gives, checked where it is given: each error names the field and what it takes."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from .nearest import unknown

__all__ = [
    "check_call",
    "check_fields",
    "check_kind",
    "check_methods",
    "check_number",
    "check_text",
    "check_texts",
    "check_whole",
    "named",
]

_Class = TypeVar("_Class", bound=type)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_VALUE = re.compile(r"[\r\n\0]")


def named(cls: _Class) -> _Class:
    """Let a dataclass refuse an unknown field by the nearest known name."""
    known = [one.name for one in fields(cls)]
    init = vars(cls)["__init__"]

    @wraps(init)
    def checked(self: object, *args: Any, **given: Any) -> None:
        for name in given:
            if name not in known:
                raise TypeError(unknown(f"field of {cls.__name__}", name, known))
        init(self, *args, **given)

    setattr(cls, init.__name__, checked)
    return cls


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Refuse what is of none of these types; a bool is no number."""
    if isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds):
        return
    names = " or ".join("None" if one is type(None) else one.__name__ for one in kinds)
    raise TypeError(f"{name} must be {names}, not {type(value).__name__}")


def check_number(name: str, value: object, least: float, most: float, unit: str = "") -> None:
    """Refuse what is no number from `least` to `most`, or not finite."""
    check_kind(name, value, int, float)
    assert isinstance(value, int | float)
    if least <= value <= most and math.isfinite(value):
        return
    above = f"at least {least}{unit} and finite"
    limits = above if most == math.inf else f"{least} to {most}{unit}"
    raise ValueError(f"{name} must be {limits}, not {value}")


def check_whole(name: str, value: object, least: int, most: float = math.inf) -> None:
    """Refuse what is no whole number from `least` to `most`."""
    check_kind(name, value, int)
    assert isinstance(value, int)
    if not least <= value <= most:
        limits = f"at least {least}" if most == math.inf else f"{least} to {most}"
        raise ValueError(f"{name} must be {limits}, not {value}")


def check_text(name: str, value: object, *, optional: bool = False) -> None:
    """Refuse what is no text, or one that UTF-8 cannot hold."""
    if value is None and optional:
        return
    check_kind(name, value, str)
    assert isinstance(value, str)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} holds half a character ({value[error.start]!a}) at {error.start}, which UTF-8 "
            "cannot send; leave it out, or give a fault of the kind UNI"
        ) from None


def check_texts(name: str, value: object) -> None:
    """Refuse what is neither a text nor a list of texts."""
    check_kind(name, value, str, list, tuple)
    assert isinstance(value, str | list | tuple)
    for one in [value] if isinstance(value, str) else value:
        check_text(name, one)


def check_fields(name: str, value: object) -> None:
    """Refuse what are no header fields: names, each with a text of one line."""
    check_kind(name, value, Mapping)
    assert isinstance(value, Mapping)
    for field, text in value.items():
        if not isinstance(field, str) or not _TOKEN.fullmatch(field):
            raise ValueError(f"{name}: {field!r} is no name of a header field")
        check_kind(f"{name}[{field!r}]", text, str)
        if _NO_VALUE.search(str(text)):
            raise ValueError(f"{name}[{field!r}] must be one line; Raw sends any bytes")


def check_methods(name: str, value: object, *methods: str) -> None:
    """Refuse what lacks a method, and a class in place of its instance."""
    for method in methods:
        if isinstance(value, type) or not callable(getattr(value, method, None)):
            raise TypeError(f"{name} must have a method {method}; {value!r:.60} has none")


def check_call(name: str, value: object, *, awaits: bool = False) -> None:
    """Refuse what cannot be called with a request.

    Args:
        awaits: Whether it may be asynchronous.
    """
    if not callable(value):
        raise TypeError(f"{name} must be a function of the request, not {type(value).__name__}")
    called: Callable[..., Any] = value
    if inspect.isclass(value):
        raise TypeError(f"{name} must be a function of the request, not the class {value.__name__}")
    if not awaits and (inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)):
        raise TypeError(f"{name} must be a plain function, not an asynchronous one")
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # some of C have none
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise TypeError(f"{name} is called with the request and nothing else: {error}") from None
