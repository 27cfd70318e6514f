"""Where two pieces of JSON first differ: by their bytes, in their own order."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smartclient.prompt_cache.difference import json_difference


@pytest.mark.parametrize(
    ("before", "after", "kind", "steps"),
    [
        pytest.param('{"a":1,"b":2}', '{"a":1,"b":3}', "edit", ("b",), id="number"),
        pytest.param('{"a":1}', '{"a":1.0}', "type_change", ("a",), id="whole-or-not"),
        pytest.param('{"a":1}', '{"a":true}', "type_change", ("a",), id="one-or-true"),
        pytest.param('{"a":true}', '{"a":false}', "edit", ("a",), id="truth"),
        pytest.param('{"a":null}', '{"a":{}}', "type_change", ("a",), id="null"),
        pytest.param('"a"', '["a"]', "type_change", (), id="text-or-list"),
        pytest.param('{"a":1,"b":2}', '{"b":2,"a":1}', "key_order", (), id="keys"),
        pytest.param(
            '{"x":1,"a":0,"b":2}', '{"x":2,"b":2,"a":0}', "edit", ("x",), id="value-first"
        ),
        pytest.param('{"a":1}', '{"a":1,"b":2}', "added", ("b",), id="key-after"),
        pytest.param('{"a":1}', '{"b":2,"a":1}', "added", ("b",), id="key-before"),
        pytest.param('{"a":1,"b":2}', '{"b":2}', "removed", ("a",), id="key-less"),
        pytest.param("[1,2,3]", "[1,3,2]", "reorder", (1,), id="elements"),
        pytest.param("[1,2]", "[1,2,3]", "added", (2,), id="element-after"),
        pytest.param("[1,2,3]", "[1,3]", "removed", (1,), id="element-less"),
        pytest.param('[{"a":1},2]', '[{"a":5},2]', "edit", (0, "a"), id="inside-an-element"),
        pytest.param('{"a":1}', '{"a": 1}', "whitespace", (), id="space-between"),
        pytest.param("[1,2]", "[1, 2]", "whitespace", (), id="space-in-a-list"),
        pytest.param('{"a":"é"}', '{"a":"\\u00e9"}', "edit", ("a",), id="escaped"),
        pytest.param("[NaN,1]", "[NaN,2]", "edit", (1,), id="nan"),
        pytest.param("not json", "not jason", "edit", (), id="no-json"),
        pytest.param("", "{}", "type_change", (), id="nothing"),
        pytest.param('{"a"', '{"b"', "edit", (), id="broken"),
    ],
)
def test_the_first_difference_has_a_kind_and_a_place(before, after, kind, steps):
    found = json_difference(before.encode(), after.encode())

    assert (found.kind, found.steps) == (kind, steps)


@pytest.mark.parametrize("escape", [True, False])
def test_half_of_a_pair_is_a_character_like_others(escape):
    before, after = (
        json.dumps({"t": text}, ensure_ascii=escape).encode("utf-8", "surrogatepass")
        for text in ("ab\ud800c", "ab\ud800d")
    )

    found = json_difference(before, after)

    assert (found.steps, found.offset) == (("t",), 3)


def test_a_timestamp_that_is_a_number_is_one():
    found = json_difference(b'{"t":1764460800}', b'{"t":1764460900}')

    assert found.pattern == "unix_timestamp"


@pytest.mark.parametrize("depth", [63, 64, 5_000])
def test_depth_is_bounded(depth):
    before, after = (b"[" * depth + inner + b"]" * depth for inner in (b"1", b"2"))

    found = json_difference(before, after)

    assert found.kind == "edit"
    assert len(found.steps) <= 64


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@given(values, values)
def test_what_differs_is_really_another_on_each_side(one, other):
    before, after = (json.dumps(each, separators=(",", ":")).encode() for each in (one, other))
    assume(before != after)

    found = json_difference(before, after)

    for step in found.steps[:-1]:
        one, other = one[step], other[step]
    assert json.dumps(one) != json.dumps(other)
