"""Read a JSON object field by field; every complaint names the field by its path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from .errors import ApiError, shortened

__all__ = [
    "LONGEST_STOP",
    "MOST_STOPS",
    "VOCABULARY",
    "Bounds",
    "Fields",
    "Neutral",
    "TextBlocks",
    "read_object",
]

Neutral = Mapping[str, tuple[object, ...]]
"""Fields that are not implemented, each with the values that change nothing."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be, both ends included; `None` is no upper end."""

    minimum: float
    maximum: float | None = None

    def __contains__(self, value: float) -> bool:
        return self.minimum <= value and (self.maximum is None or value <= self.maximum)

    def __str__(self) -> str:
        most = self.maximum
        return f"at least {self.minimum}" if most is None else f"from {self.minimum} to {most}"


VOCABULARY = Bounds(0, 2**31 - 1)
"""What a token's id may be before it is known how many the model has."""


@dataclass(frozen=True, slots=True)
class TextBlocks:
    """What a block of text looks like in one API.

    Args:
        type: Its type.
        ignored: Its fields that are taken and ignored, such as a mark of the prompt cache.
        neutral: Its fields that are not implemented.
    """

    type: str
    ignored: tuple[str, ...]
    neutral: Neutral


MOST_STOPS = 256
LONGEST_STOP = 1024  # characters: every new token is compared with all of them
# Of arrays and objects in one another: templates, grammars and replies take them by recursion.
_MOST_LEVELS = 256
_TOO_DEEP = f"the body is nested too deep: at most {_MOST_LEVELS} arrays and objects in one another"
_LONGEST_NAME = 64  # characters: looking for the nearest name takes time with each

_NAMES = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}


def read_object(body: bytes) -> Fields:
    """The body as a JSON object.

    Raises:
        ApiError: It is not JSON in UTF-8, or is something else than an object.
    """
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ApiError("invalid", f"the body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ApiError("invalid", _TOO_DEEP) from error
    if _is_too_deep(value):
        raise ApiError("invalid", _TOO_DEEP)
    return Fields(value, "")


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(_MOST_LEVELS + 1):
        nested = [one for one in level if isinstance(one, dict | list)]
        if not nested:
            return False
        level = []
        for one in nested:
            level += one.values() if isinstance(one, dict) else one
    return True


class Fields:
    """The fields of one JSON object. A field that is null counts as absent.

    Args:
        value: What was decoded.
        path: Where it stands, `messages[2]`; empty for the whole body.

    Raises:
        ApiError: `value` is no object; so does every method when its field is not as asked.
    """

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            where = path or "the body"
            raise ApiError(
                "invalid", f"{where} must be an object, not {_kind(value)}", param=path or None
            )
        self._fields: dict[str, object] = value
        self._path = path

    def path(self, name: str) -> str:
        """The path of the field `name`."""
        return f"{self._path}.{name}" if self._path else name

    def wrong(self, name: str, why: str, *, code: str | None = None) -> ApiError:
        """The complaint that the field `name` is `why`."""
        path = self.path(name)
        return ApiError("invalid", f"{path} {why}", param=path, code=code)

    def check(self, known: Iterable[str], *, neutral: Neutral) -> None:
        """Refuse what is unknown, and what is not implemented and would change the output."""
        known = set(known)
        for name, value in self._fields.items():
            if name in neutral:
                if value is not None and not _is_one_of(value, neutral[name]):
                    raise self.wrong(name, "is not implemented by this server; leave it out")
            elif name not in known:
                near = get_close_matches(name[:_LONGEST_NAME], known, n=1)
                hint = f"; did you mean {near[0]}?" if near else "; leave it out"
                raise self.wrong(shortened(name), f"is no known field{hint}")

    def value(self, name: str) -> object:
        """The field as it is; `None` when it is absent."""
        return self._fields.get(name)

    def text(self, name: str) -> str | None:
        return self._of_type(name, str)

    def flag(self, name: str) -> bool:
        return self._of_type(name, bool) or False

    def integer(self, name: str, bounds: Bounds) -> int | None:
        given = self._fields.get(name)
        # JSON has one kind of number: 64.0 is what some languages write for 64.
        if isinstance(given, float) and given.is_integer():
            value: int | None = int(given)
        else:
            value = self._of_type(name, int)
        if value is not None and value not in bounds:
            raise self.wrong(name, f"must be {bounds}, not {value}")
        return value

    def number(self, name: str, bounds: Bounds, *, default: float) -> float:
        value = self._fields.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, f"must be a number, not {_kind(value)}")
        if value not in bounds:
            raise self.wrong(name, f"must be {bounds}, not {value}")
        return float(value)

    def items(self, name: str) -> list[object] | None:
        """The field as a list."""
        value = self._fields.get(name)
        if value is None or isinstance(value, list):
            return value
        raise self.wrong(name, f"must be an array, not {_kind(value)}")

    def objects(self, name: str) -> list[Fields] | None:
        """The field as a list of objects."""
        items = self.items(name)
        if items is None:
            return None
        return [Fields(item, f"{self.path(name)}[{at}]") for at, item in enumerate(items)]

    def object(self, name: str) -> Fields | None:
        value = self._fields.get(name)
        return None if value is None else Fields(value, self.path(name))

    def mapping(self, name: str) -> dict[str, Any] | None:
        """The field as an object, whatever it holds."""
        value = self._fields.get(name)
        if value is None or isinstance(value, dict):
            return value
        raise self.wrong(name, f"must be an object, not {_kind(value)}")

    def one_of(self, name: str, values: Sequence[str]) -> str:
        """The field, which is required, as one of `values`."""
        given = self.required(name, self.text(name))
        if given not in values:
            listed = " or ".join(map(repr, values))
            raise self.wrong(name, f"must be {listed}, not {shortened(given)!r}")
        return given

    def stops(self, name: str, *, or_one: bool = False) -> tuple[str, ...]:
        """The field as stop strings, neither too many nor too long.

        Args:
            or_one: Whether it may be a single string instead of an array.
        """
        value = self._fields.get(name)
        items = [value] if or_one and isinstance(value, str) else self.items(name) or []
        stops = tuple(item for item in items if isinstance(item, str))
        if len(stops) != len(items):
            raise self.wrong(name, "must be an array of strings")
        if "" in stops:
            raise self.wrong(name, "may not hold an empty string: it would stop at once")
        longest = max(map(len, stops), default=0)
        if len(stops) > MOST_STOPS:
            raise self.wrong(name, f"may hold {MOST_STOPS} strings, not {len(stops):,}")
        if longest > LONGEST_STOP:
            raise self.wrong(name, f"may be {LONGEST_STOP:,} characters long, not {longest:,}")
        return stops

    def content(self, name: str, *, refused: Iterable[str], text: TextBlocks) -> str | None:
        """The field as text: a string, or an array of text blocks, joined by newlines.

        Args:
            refused: Block types that exist in this API and are not implemented.
            text: What a text block is.
        """
        value = self._fields.get(name)
        if value is None or isinstance(value, str):
            return value
        blocks = self.blocks(name)
        return "\n".join(block.text_block(refused, text) for block in blocks)

    def blocks(self, name: str) -> list[Fields]:
        """The field as an array of blocks, which could have been a string."""
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self.wrong(name, f"must be a string or an array of blocks, not {_kind(value)}")
        return self.objects(name) or []

    def required(self, name: str, value: T | None) -> T:
        """`value`, or the complaint that the field is missing."""
        if value is None:
            raise self.wrong(name, "is required")
        return value

    def text_block(self, refused: Iterable[str], text: TextBlocks) -> str:
        """The text of the block that these fields are."""
        kind = self.required("type", self.text("type"))
        if kind in refused:
            raise self.wrong("type", f"{kind!r} is not implemented by this server; send text")
        if kind != text.type:
            raise self.wrong("type", f"must be {text.type!r}, not {shortened(kind)!r}")
        self.check(("type", "text", *text.ignored), neutral=text.neutral)
        return self.required("text", self.text("text"))

    def _of_type(self, name: str, kind: type[T]) -> T | None:
        value = self._fields.get(name)
        # JSON's true is no integer, although Python's is.
        if value is None or (isinstance(value, kind) and type(value) is kind):
            return value
        raise self.wrong(name, f"must be {_NAMES[kind]}, not {_kind(value)}")


def _is_one_of(value: object, allowed: tuple[object, ...]) -> bool:
    # JSON's true is not 1, although Python's is; 1.0 is 1 in both.
    return any(isinstance(value, bool) is isinstance(one, bool) and value == one for one in allowed)


def _kind(value: object) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "an array"
    return _NAMES.get(type(value), "an object")
