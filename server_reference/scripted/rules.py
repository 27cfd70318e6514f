"""Which rule answers a request; and when none does, which was nearest and why it was not it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Unpack

from .conditions import CONDITIONS, Condition, Conditions, conditions_of, describe, short
from .given import check_kind
from .nearest import unknown
from .request import Received
from .then import Item, Then, item_from_json, steps

__all__ = [
    "ExhaustedError",
    "NoRuleError",
    "Rule",
    "RuleBook",
    "Rules",
    "rule",
    "rule_from_json",
    "rules_of",
]


Rules: TypeAlias = "Rule | Mapping[str, Any] | Then | Sequence[Rule]"
"""What a server takes: rules, plain objects, or something to play for any request."""


class NoRuleError(LookupError):
    """No rule matches a request; the message names the nearest one and the difference."""


class ExhaustedError(LookupError):
    """The rules that match a request have played all that they had."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """What to play for which requests; made by `rule`.

    Attributes:
        name: How messages call it.
        items: What to play, in order.
        times: How many requests it answers; `None` is no limit.
        conditions: Why a request might not match.
    """

    name: str
    items: tuple[Item, ...]
    times: int | None
    conditions: tuple[Condition, ...] = field(repr=False, default=())

    def differences(self, received: Received) -> list[str]:
        """Why `received` does not match; empty when it does."""
        return [why for condition in self.conditions if (why := condition(received))]

    def matches(self, received: Received) -> bool:
        return all(condition(received) is None for condition in self.conditions)


def rule(
    then: Then,
    *,
    times: int | None = None,
    name: str | None = None,
    **conditions: Unpack[Conditions],
) -> Rule:
    """Play `then` for the requests that meet every condition given.

    A list in `then` is a sequence: one item per request, and after the last the rule is
    exhausted. Anything else is played for every request.

    Args:
        then: Text, `Answer`, `ErrorAnswer`, a fault, a list of operations, or a function of
            the request, sync or async, that returns one of these; or a list of them.
        times: How many requests it answers; then later rules that match are asked.
        name: How messages call it; `None` describes its conditions.
        **conditions: See `Conditions`; one that is `None` is left out.

    Raises:
        TypeError: `then` holds something that cannot be played.
        ValueError: A condition is unknown or can never be met, or a script cannot be played.
    """
    _check_no_rule(then)
    items, is_sequence = steps(then)
    check_kind("times", times, int, type(None))
    check_kind("name", name, str, type(None))
    if times is not None and (is_sequence or times < 1):
        why = "a list is played once each" if is_sequence else f"must be at least 1, not {times}"
        raise ValueError(f"times: {why}; leave it out, or repeat the items")
    given = {key: value for key, value in conditions.items() if value is not None}
    described = name or describe(given) or "any request"
    limit = len(items) if is_sequence else times
    return Rule(described, items, limit, conditions_of(given))


def _check_no_rule(then: object) -> None:
    if any(isinstance(one, Rule) for one in (then if isinstance(then, list | tuple) else [then])):
        raise TypeError(
            "then is a rule already; give a server rules by scripted([...]), rules.add(...) or "
            "rules.replace([...])"
        )


_FIELDS = (CONDITIONS - {"when"}) | {"times", "name"}


def rule_from_json(given: Any) -> Rule:
    """A rule from plain JSON: the parameters of `rule`, `when` excepted.

    Raises:
        ValueError: A field is unknown or wrong; the message names it and the nearest known.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"a rule is an object, not {type(given).__name__}")
    for name in given:
        if name not in _FIELDS and name != "then":
            raise ValueError(unknown("field of a rule", name, [*_FIELDS, "then"]))
    if "then" not in given:
        raise ValueError("a rule needs then: what to play")
    fields = dict(given)
    then = fields.pop("then")
    items: Any = [item_from_json(one) for one in then] if isinstance(then, list) else None
    try:
        return rule(item_from_json(then) if items is None else items, **fields)
    except TypeError as error:
        raise ValueError(f"rule: {error}") from error


def rules_of(given: Rules) -> list[Rule]:
    """Rules as a server takes them: rules, plain objects, or something to play for any request.

    Raises:
        TypeError: Rules are mixed with what is none, or cannot be played.
        ValueError: A rule is wrong.
    """
    if isinstance(given, Rule):
        return [given]
    if isinstance(given, Mapping):
        return [rule_from_json(given) if "then" in given else rule(item_from_json(given))]
    if isinstance(given, list | tuple):
        if not given:
            return []
        made = [_rule_or_none(one) for one in given]
        found = [one for one in made if one is not None]
        if len(found) == len(given):
            return found
        if found:
            number = made.index(None) + 1
            raise TypeError(f"rule {number} of {len(given)} is no rule: make it rule(...)")
    return [rule(given)]  # type: ignore[arg-type]  # `rule` checks what it is given


def _rule_or_none(given: object) -> Rule | None:
    if isinstance(given, Rule):
        return given
    return rule_from_json(given) if isinstance(given, Mapping) and "then" in given else None


class RuleBook:
    """Rules in their order, and how often each was played. Threads may share it."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._lock = threading.RLock()  # a `when` may change the rules
        self._rules = list(rules)
        self._played: dict[int, int] = {}

    @property
    def rules(self) -> list[Rule]:
        return list(self._rules)

    def played(self, one: Rule) -> int:
        """How many requests `one` has answered."""
        return self._played.get(id(one), 0)

    def add(self, one: Rule, *, first: bool = False) -> None:
        """Take a further rule, asked after all others or before them."""
        with self._lock:
            self._rules.insert(0 if first else len(self._rules), one)

    def replace(self, rules: Rules) -> None:
        """Take these rules, or what one plays, in place of all others, none played yet.

        Raises:
            TypeError: Something cannot be played.
            ValueError: A rule is wrong.
        """
        made = rules_of(rules)
        with self._lock:
            self._rules = made
            self._played = {}

    def reset(self) -> None:
        """Play every rule from its start again."""
        with self._lock:
            self._played = {}

    def pick(self, received: Received) -> Item:
        """What to play for `received`: the first rule that matches and is not exhausted.

        Raises:
            NoRuleError: None matches.
            ExhaustedError: Those that match have nothing left.
        """
        with self._lock:
            spent: list[Rule] = []
            for one in self._rules:
                if not one.matches(received):
                    continue
                played = self._played.get(id(one), 0)
                if one.times is not None and played >= one.times:
                    spent.append(one)
                    continue
                self._played[id(one)] = played + 1
                return one.items[played if len(one.items) > 1 else 0]
        if spent:
            raise ExhaustedError(_exhausted(spent[-1], received))
        raise NoRuleError(self._no_rule(received))

    def _no_rule(self, received: Received) -> str:
        asked = f"no rule matches {received.method} {short(received.path)}"
        if not self._rules:
            return f"{asked}: the server has no rules; give it some"
        nearest = min(self._rules, key=lambda one: len(one.differences(received)))
        number = self._rules.index(nearest) + 1
        why = "; ".join(nearest.differences(received))
        return (
            f"{asked}; the nearest of {len(self._rules)} is rule {number} ({nearest.name}), "
            f"but {why}; change it or add a rule"
        )


def _exhausted(one: Rule, received: Received) -> str:
    return (
        f"rule {one.name!r} matches {received.method} {short(received.path)} but is exhausted: it "
        f"has played all of its {one.times}; this is request {received.number}; let it play more, "
        "or add a rule after it"
    )
