from __future__ import annotations

import json

import pytest

from server_reference.api.anthropic_messages import TEXT
from server_reference.api.errors import ApiError
from server_reference.api.fields import Bounds, read_object


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut-off"),
        pytest.param(b'{"a": 1,}', id="trailing-comma"),
        pytest.param(b'{"a": NaN}', id="nan"),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', id="byte-order-mark"),
        pytest.param(b'{"a": "\xff"}', id="no-utf-8"),
        pytest.param(b'{"a": "\\ud800"}', id="lone-high-surrogate"),
        pytest.param(b'{"a": "\\udc00", "b": "some more text"}', id="lone-low-surrogate"),
        pytest.param(b'{"a": "\xed\xa0\x80"}', id="surrogate-in-utf-8"),
        pytest.param(b'{"a": ' + b"[" * 100_000, id="nested-too-deep"),
        pytest.param(b'{"a": ' + b"[" * 256 + b"]" * 256 + b"}", id="more-levels-than-are-taken"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="number-too-long"),
        pytest.param(b"[]", id="array"),
        pytest.param(b"null", id="null"),
        pytest.param(b'"text"', id="text"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body):
    with pytest.raises(ApiError) as refused:
        read_object(body)

    assert refused.value.status("openai") == 400
    assert "the body" in refused.value.message


def test_as_many_levels_as_are_taken_are_taken():
    body = b'{"a": ' + b'[{"b": ' * 127 + b"[1]" + b"}]" * 127 + b"}"

    assert read_object(body).value("a")


def test_a_surrogate_pair_is_a_character():
    assert read_object(b'{"a": "\\ud83d\\ude00"}').text("a") == "\N{GRINNING FACE}"


def test_null_counts_as_absent():
    fields = read_object(b'{"a": null}')

    assert fields.text("a") is None
    assert fields.integer("a", Bounds(1)) is None
    assert fields.number("a", Bounds(0, 1), default=0.5) == 0.5
    assert fields.flag("a") is False
    assert fields.stops("a") == ()


@pytest.mark.parametrize("body", [b'{"a": 64}', b'{"a": 64.0}', b'{"a": 6.4e1}'])
def test_a_number_without_a_fraction_is_an_integer(body):
    value = read_object(body).integer("a", Bounds(64, 64))

    assert (value, type(value)) == (64, int)


@pytest.mark.parametrize("value", [b"1", b"1.0"])
def test_a_neutral_number_is_neutral_however_it_is_written(value):
    read_object(b'{"n": %s}' % value).check((), neutral={"n": (1,)})


@pytest.mark.parametrize(("value", "neutral"), [(b"true", 1), (b"0", False), (b"1.5", 1)])
def test_what_only_python_takes_for_the_same_is_not_neutral(value, neutral):
    with pytest.raises(ApiError, match="a is not implemented"):
        read_object(b'{"a": %s}' % value).check((), neutral={"a": (neutral,)})


def test_an_integer_is_a_number():
    assert read_object(b'{"a": 1}').number("a", Bounds(0, 1), default=0.5) == 1.0


def test_what_is_missing_is_named_by_its_path():
    (inner,) = read_object(b'{"outer": [{}]}').objects("outer")

    with pytest.raises(ApiError, match=r"^outer\[0\]\.name is required$"):
        inner.required("name", inner.text("name"))


def test_an_unknown_field_without_a_near_one_is_to_be_left_out():
    with pytest.raises(ApiError, match="zzz is no known field; leave it out"):
        read_object(b'{"zzz": 1}').check(["model"], neutral={})


@pytest.mark.parametrize(
    ("stops", "why"),
    [
        pytest.param([f"{at}" for at in range(257)], "may hold 256 strings, not 257", id="many"),
        pytest.param(["x" * 1025], "may be 1,024 characters long, not 1,025", id="long"),
        pytest.param(["x", ""], "may not hold an empty string", id="empty"),
        pytest.param(["x", 1], "must be an array of strings", id="number"),
        pytest.param("x", "must be an array, not a string", id="bare"),
    ],
)
def test_stop_strings_that_would_hold_up_every_token_are_refused(stops, why):
    fields = read_object(json.dumps({"stop": stops}).encode())

    with pytest.raises(ApiError, match=f"^stop {why}"):
        fields.stops("stop")


def test_a_single_stop_string_may_stand_alone_where_an_api_allows_it():
    assert read_object(b'{"stop": "x"}').stops("stop", or_one=True) == ("x",)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"x" * 10_000_000: 1}, id="field"),
        pytest.param({"model": [{"type": "x" * 10_000_000}]}, id="block-type"),
    ],
)
def test_a_refusal_is_short_however_long_its_cause(body):
    fields = read_object(json.dumps(body).encode())

    with pytest.raises(ApiError) as refused:
        fields.content("model", refused=(), text=TEXT)
        fields.check(["model"], neutral={})

    assert len(refused.value.message) < 200
    assert len(refused.value.param) < 200
