"""Function definitions."""

from __future__ import annotations

import pytest

from smartclient.tokens.schemas import add_functions
from smartclient.tokens.tally import FLAT, NESTED
from tests.smartclient.tokens.samples import WEATHER_TOOL, a_tally, of_tally

POINT = {"type": "object", "properties": {"x": {"type": "number", "description": "Across."}}}


def tallied(parameters):
    tally = a_tally()
    add_functions(tally, [{"name": "f", "parameters": parameters}], per_function=7)
    return tally


def test_a_function_is_rendered_in_lines():
    tally = a_tally()

    add_functions(tally, [WEATHER_TOOL], per_function=7)

    assert tally.mid == 7 + 3 + 3 + 3 - 3 + 2 * 3 + 12
    assert tally.texts[FLAT] == [
        "get_current_weather:Get the current weather in a given location",
        "location:string:The city and state, e.g. San Francisco, CA",
        "celsius",
        "fahrenheit",
        "unit:string:The unit of temperature to return",
    ]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(POINT, id="object"),
        pytest.param({"type": "array", "items": POINT}, id="array"),
        pytest.param({"anyOf": [{"type": "null"}, POINT]}, id="any-of"),
        pytest.param({"type": "array", "items": {"oneOf": [POINT]}}, id="deeper"),
    ],
)
def test_what_is_nested_counts_with_a_wider_band(value):
    tally = tallied({"type": "object", "properties": {"at": value}})

    assert "x:number:Across" in tally.texts[NESTED]


def test_definitions_count_once():
    tally = tallied({"properties": {"at": {"$ref": "#/$defs/Point"}}, "$defs": {"Point": POINT}})

    assert of_tally(tally).count("x:number:Across") == 1


def test_a_schema_that_never_ends_is_looked_into_as_far_as_is_sensible():
    schema: dict = {"type": "object", "properties": {}}
    schema["properties"]["again"] = schema

    assert tallied(schema).mid > 0


@pytest.mark.parametrize(
    "function",
    [
        None,
        "f",
        {},
        {"name": None, "parameters": None},
        {"name": "f", "parameters": {"properties": []}},
        {"name": "f", "parameters": {"properties": {"a": None, "b": {"enum": "no list"}}}},
        {"name": "f", "parameters": {"properties": {"a": {"type": ["string", "null"]}}}},
        {"name": "f", "parameters": {"properties": {"a": {"enum": [1, None]}}, "$defs": 3}},
    ],
)
def test_an_odd_definition_is_no_error(function):
    tally = a_tally()

    add_functions(tally, [function], per_function=7)

    assert tally.has_tools


def test_no_functions_add_nothing():
    tally = a_tally()

    add_functions(tally, [], per_function=7)

    assert (tally.mid, tally.has_tools) == (0, False)
