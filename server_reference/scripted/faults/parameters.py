"""The parameters of a fault: checked where it is defined, each error naming the field."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from ..nearest import unknown

__all__ = ["Count", "Number", "Seconds", "Size", "Status", "Within", "check_parameters"]


@dataclass(frozen=True, slots=True)
class Within:
    """The smallest value and the largest, and the unit that they count."""

    least: int
    most: float = math.inf
    unit: str = ""


Count: TypeAlias = Annotated[int, Within(0)]
Number: TypeAlias = Annotated[int, Within(1)]
Seconds: TypeAlias = Annotated[float, Within(0, unit=" s")]
Size: TypeAlias = Annotated[float, Within(0)]
Status: TypeAlias = Annotated[int, Within(200, 599)]


def check_parameters(name: str, make: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse what `make`, the maker of the fault `name`, does not take.

    Raises:
        ValueError: A parameter is unknown, missing or out of range.
        TypeError: It is of another type.
    """
    known = signature(make).parameters
    hints = get_type_hints(make, include_extras=True)
    for parameter, value in given.items():
        if parameter not in known:
            if not known:
                raise ValueError(f"{name}: {parameter!r} is unknown; it takes no parameters")
            raise ValueError(f"{name}: {unknown('parameter', parameter, known)}")
        _check(f"{name}: {parameter}", hints[parameter], value)


def _check(what: str, hint: Any, value: Any) -> None:
    origin = get_origin(hint)
    if origin is Annotated:
        kind, *limits = get_args(hint)
        _check(what, kind, value)
        for limit in limits:
            _check_range(what, limit, value)
    elif origin is Literal:
        if value not in get_args(hint):
            raise ValueError(f"{what}: {unknown('choice', value, get_args(hint))}")
    elif origin in (Union, UnionType):
        if value is not None:
            _check(what, next(one for one in get_args(hint) if one is not type(None)), value)
    elif isinstance(value, bool) != (hint is bool) or not isinstance(value, _kinds(hint)):
        raise TypeError(f"{what} must be {hint.__name__}, not {type(value).__name__}")


def _kinds(hint: Any) -> tuple[Any, ...]:
    return (int, float) if hint is float else (hint,)


def _check_range(what: str, limit: Within, value: float) -> None:
    if limit.least <= value <= limit.most and math.isfinite(value):
        return
    most = "" if limit.most == math.inf else f" and at most {limit.most}{limit.unit}"
    raise ValueError(f"{what} must be at least {limit.least}{limit.unit}{most}, not {value}")
