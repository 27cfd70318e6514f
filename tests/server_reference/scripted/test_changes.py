from __future__ import annotations

import pytest

from server_reference.scripted.changes import changes

LONG = "a" * 200


@pytest.mark.parametrize(
    ("recorded", "asked", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1.0}, [], id="equal-numbers"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, [], id="order-of-keys"),
        pytest.param({"a": 1}, {"a": True}, ["a: recorded 1, asked True"], id="bool-is-no-number"),
        pytest.param(
            {"m": [{"c": "Hi"}]},
            {"m": [{"c": "Yo"}]},
            ["m[0].c: recorded 'Hi', asked 'Yo'"],
            id="deep",
        ),
        pytest.param({"a": 1}, {}, ["a: recorded 1, asked without it"], id="gone"),
        pytest.param({}, {"a": None}, ["a: recorded without it, asked None"], id="new-null"),
        pytest.param(
            {"a": [1]},
            {"a": [1, 2, 3]},
            ["a[1]: only in the one asked, 2 (1 recorded, 3 asked)"],
            id="longer",
        ),
        pytest.param(
            [1, 2], [], ["[0]: only in the one recorded, 1 (2 recorded, 0 asked)"], id="shorter"
        ),
        pytest.param({"a": {}}, {"a": []}, ["a: recorded {}, asked []"], id="another-kind"),
        pytest.param("x", "y", ["the body: recorded 'x', asked 'y'"], id="no-json"),
        pytest.param(
            {"a": 1, "b": {"c": 2}},
            {"a": 2, "b": {"c": 3}},
            ["a: recorded 1, asked 2", "b.c: recorded 2, asked 3"],
            id="several",
        ),
    ],
)
def test_each_difference_names_its_place_and_both_values(recorded, asked, expected):
    assert changes(recorded, asked) == expected


def test_long_texts_are_shown_where_they_begin_to_differ():
    [why] = changes({"a": LONG + "1" + LONG}, {"a": LONG + "2"})

    assert why == f"a: recorded …'{'a' * 12}1{'a' * 35}'…, asked …'{'a' * 12}2'"


def test_long_values_are_shortened():
    [why] = changes({}, {"a": LONG})

    assert len(why) < 90


@pytest.mark.parametrize(
    ("path", "left"),
    [
        pytest.param("m", 0, id="all-below"),
        pytest.param("m[].id", 1, id="any-index"),
        pytest.param("m[0].id", 2, id="one-index"),
        pytest.param("m[].i", 3, id="no-part-of-a-name"),
    ],
)
def test_places_may_be_left_out(path, left):
    recorded = {"m": [{"id": 1}, {"id": 2, "c": 3}]}
    asked = {"m": [{"id": 8}, {"id": 9, "c": 4}]}

    assert len(changes(recorded, asked, ignore=[path])) == left
