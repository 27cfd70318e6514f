"""What a user says about models, checked and laid over what is known: field by field.

Whatever cannot be is refused here, with the file, the model and the field that it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from .facts import ImageTokens, Mode, ModelFacts, Prices, Rates, Tier

__all__ = ["flaw_of", "laid_over"]

_PRICED = ("prices", "fine_tuned")
_ABOVE_ZERO = frozenset({"multiplier", "geos", "regions"})  # a factor of 0 makes all of it free
_TEXT = frozenset({"scope"})
_NAMES = sorted(
    {
        name
        for struct in (ModelFacts, Prices, Mode, Tier, ImageTokens)
        for name in struct.__struct_fields__
    }
)
_UNKNOWN = re.compile(r"unknown field `(.*?)`")
_PATH = re.compile(r" - at `\$\.?(.*)`$")
_DAY = re.compile(r"20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_LIMITS = ("min_cache_tokens", "context_window", "max_input_tokens", "max_output_tokens")
_DIGITS = 12  # before and after the point: sums stay exact, whoever adds them


def laid_over(base: ModelFacts, given: Mapping[str, Any], *, where: str) -> ModelFacts:
    """`base` with the fields of `given` in place of its own; `None` makes one unknown.

    Args:
        where: What refuses: the file or the call, and the model.

    Raises:
        ValueError: A field does not exist, or cannot be what it is given as.
    """
    for field in _PRICED:
        prices = given.get(field)
        if prices is not None and not isinstance(prices, Mapping):
            raise ValueError(f"{where}: {field} must be a mapping of fields, not {prices!r}")
        for path, fault in _faults(prices, field):
            raise ValueError(f"{where}: {path} {fault}")
    merged = _merged(msgspec.to_builtins(base), given)
    merged["aliases"] = _joined(base.aliases, given.get("aliases"))
    try:
        facts = msgspec.convert(merged, ModelFacts)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {_worded(str(error))}") from None
    if flaw := flaw_of(facts):
        raise ValueError(f"{where}: {flaw}")
    return facts


def flaw_of(facts: ModelFacts) -> str | None:
    """What is wrong with a record as a whole: holes in its prices, limits that cannot be."""
    for field in _LIMITS:
        limit = getattr(facts, field)
        if limit is not None and limit < 1:
            return f"{field} must be at least 1 token, not {limit}; leave it out if unknown"
    for ttl, seconds in (facts.cache_ttls or {}).items():
        if seconds < 1:
            return f"cache_ttls.{ttl} must be at least 1 s, not {seconds}"
    for field in ("as_of", "retires_on"):
        day = getattr(facts, field)
        if day is not None and not _DAY.fullmatch(day):
            return f"{field} must be a day such as 2026-11-29, not {day!r}"
    for field in _PRICED:
        prices = getattr(facts, field)
        if prices is not None and (flaw := _hole(prices, field)):
            return flaw
    return None


def _hole(prices: Prices, where: str) -> str | None:
    if prices.input is None or prices.output is None:
        missing, there = ("input", "output") if prices.input is None else ("output", "input")
        return f"{where}.{missing} is missing; give it beside {there}, or no {where} at all"
    modes = {"batch": prices.batch} if prices.batch is not None else {}
    modes |= {f"service_tiers.{name}": mode for name, mode in prices.service_tiers.items()}
    modes |= {f"speeds.{name}": mode for name, mode in prices.speeds.items()}
    for name, mode in modes.items():
        if mode.multiplier is None and (mode.input is None or mode.output is None):
            return f"{where}.{name} needs a multiplier, or both input and output"
        if flaw := _tiers_flaw(mode.tiers or (), prices, f"{where}.{name}"):
            return flaw
    return _tiers_flaw(prices.tiers, prices, where)


def _tiers_flaw(tiers: tuple[Tier, ...], prices: Prices, where: str) -> str | None:
    floor = 0
    for number, tier in enumerate(tiers):
        path = f"{where}.tiers[{number}]"
        if tier.above <= floor:
            return f"{path}.above must be more than {floor}, not {tier.above}: tiers rise"
        floor = tier.above
        named, wanted = _named(tier), _named(prices)
        if named and (holes := sorted(wanted - named)):
            whole = where.partition(".")[0]
            return f"{path}.{holes[0]} is missing; give all that {whole} has, or none if unknown"
    return None


def _named(rates: Rates) -> set[str]:
    """The prices that are known, each by its path."""
    single = {
        name for name in ("input", "output", "cache_read") if getattr(rates, name) is not None
    }
    return single | {f"cache_write.{ttl}" for ttl in rates.cache_write}


def _faults(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The numbers of a user's prices that cannot be."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _TEXT:
                yield from _faults(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _faults(inner, f"{path}[{number}]")
    elif value is not None and (fault := _fault(value, path)):
        yield path, fault


def _fault(value: Any, path: str) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return f"must be a number, not {value!r}"
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        return f"must be a finite number, not {value}"
    if number < 0:
        return f"must be at least 0, not {value}"
    if number == 0 and _ABOVE_ZERO & set(path.split(".")):
        return "must be above 0; for what costs nothing set the prices to 0"
    exponent = number.normalize().as_tuple().exponent
    if number >= 10**_DIGITS or (isinstance(exponent, int) and exponent < -_DIGITS):
        return f"must be below 10^{_DIGITS}, with {_DIGITS} decimals at most, not {value}"
    return None


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in given.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = _merged(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _joined(known: tuple[str, ...], given: Any) -> Any:
    """Aliases add up, so that a name once known stays so."""
    if not isinstance(given, list | tuple):
        return known if given is None else given  # what it is not is said by the conversion
    return [*known, *(alias for alias in given if alias not in known)]


def _worded(message: str) -> str:
    """What msgspec says, with the field first."""
    found = _PATH.search(message)
    where = found[1] if found else ""
    said = message[: found.start()] if found else message
    if unknown := _UNKNOWN.search(said):
        from difflib import get_close_matches

        near = get_close_matches(unknown[1], _NAMES, n=1)
        path = ".".join(part for part in (where, unknown[1]) if part)
        return f"there is no field {path}" + (f"; did you mean {near[0]!r}?" if near else "")
    return f"{where or 'the record'}: {said[:1].lower()}{said[1:]}"
