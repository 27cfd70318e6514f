"""Function definitions, as OpenAI renders them into the prompt.

Source: openai/openai-cookbook, "How to count tokens with tiktoken", section 7, exact on its
examples; how nested schemas are rendered is not told anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .tally import FLAT, NESTED, Spread, Tally, plain

__all__ = ["add_functions"]

_PROPERTIES, _PROPERTY, _ENUM, _ITEM, _END = 3, 3, -3, 3, 12
_DEEPEST = 12  # levels of nesting that are looked into


def add_functions(tally: Tally, functions: Sequence[Any], *, per_function: int) -> None:
    """Count the definitions of `functions`, each with a name, a description and parameters.

    Args:
        tally: Takes them in.
        functions: As the Responses format has them, without a wrapper.
        per_function: Tokens that each one begins with.
    """
    if functions:
        tally.has_tools = True
        tally.add(_END, FLAT)
    for function in functions:
        function = plain(function)
        if not isinstance(function, Mapping):
            tally.text(function, NESTED)
            continue
        parameters = plain(function.get("parameters"))
        spread = NESTED if _is_nested(parameters) else FLAT
        tally.add(per_function, spread)
        tally.text(f"{_text(function, 'name')}:{_described(function)}", spread)
        if isinstance(parameters, Mapping):
            _properties(tally, parameters, spread, 0)


def _properties(tally: Tally, schema: Mapping[str, Any], spread: Spread, depth: int) -> None:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        tally.add(_PROPERTIES, spread)
        for name, value in properties.items():
            tally.add(_PROPERTY, spread)
            if isinstance(value, Mapping):
                _property(tally, str(name), value, spread)
                _inside(tally, value, spread, depth)
    if depth == 0:
        for definition in _mappings(schema.get("$defs")):
            _inside(tally, definition, spread, depth)


def _property(tally: Tally, name: str, value: Mapping[str, Any], spread: Spread) -> None:
    choices = value.get("enum")
    if isinstance(choices, Sequence) and not isinstance(choices, str) and choices:
        tally.add(_ENUM + _ITEM * len(choices), spread)
        for choice in choices:
            tally.text(choice if isinstance(choice, str) else str(choice), spread)
    kind = value.get("type", "")
    kind = kind if isinstance(kind, str) else "|".join(map(str, kind))
    tally.text(f"{name}:{kind}:{_described(value)}", spread)


def _inside(tally: Tally, schema: Mapping[str, Any], spread: Spread, depth: int) -> None:
    """Whatever objects stand inside a property."""
    if depth >= _DEEPEST:
        tally.text(dict(schema), spread)
        return
    _properties(tally, schema, spread, depth + 1)
    items = schema.get("items")
    if isinstance(items, Mapping):
        _inside(tally, items, spread, depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        for choice in _mappings(schema.get(name)):
            _inside(tally, choice, spread, depth + 1)


def _is_nested(parameters: Any) -> bool:
    """Whether a schema holds more than properties of plain types."""
    if not isinstance(parameters, Mapping):
        return False
    if "$defs" in parameters:
        return True
    inner = {"properties", "items", "anyOf", "oneOf", "allOf", "$ref"}
    return any(not inner.isdisjoint(value) for value in _mappings(parameters.get("properties")))


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    found = value.values() if isinstance(value, Mapping) else value
    if not isinstance(found, Sequence) and not isinstance(value, Mapping):
        return []
    return [one for one in found if isinstance(one, Mapping)]


def _described(value: Mapping[str, Any]) -> str:
    return _text(value, "description").removesuffix(".")


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""
