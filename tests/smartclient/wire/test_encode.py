"""Requests are strict JSON."""

from __future__ import annotations

import pytest

from smartclient.wire.encode import encode, is_alike


def test_plain_payloads_are_compact_json_in_their_order():
    assert (
        encode({"b": [1, 2.5, None, True], "a": "é"}) == '{"b":[1,2.5,null,true],"a":"é"}'.encode()
    )


def test_what_json_cannot_say_is_named():
    with pytest.raises(TypeError, match="a request cannot hold a object"):
        encode({"messages": [object()]})


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        pytest.param(
            {"messages": [{"content": "ok", "n": 1}, {"content": "\ud800"}]},
            "messages[1].content",
            id="text",
        ),
        pytest.param({"a": ({"b": ["x", "y\udc00z"]},)}, "a[0].b[1]", id="inside-lists"),
    ],
)
def test_half_a_surrogate_pair_is_refused_by_its_path(payload, path):
    """A provider answers it with a 400 that names nothing (opencode#13988)."""
    with pytest.raises(ValueError, match="surrogate") as caught:
        encode(payload)

    assert str(caught.value).startswith(f"not sent: {path} holds")


@pytest.mark.parametrize(
    ("body", "alike"),
    [
        pytest.param(b'{"b":1,"a":1.5}', True, id="the-same-bytes"),
        pytest.param(b' { "b" : 1 , "a":15e-1 }', True, id="written-otherwise"),
        pytest.param(b'{"a":1.5,"b":1}', False, id="another-order"),
        pytest.param(b'{"b":1.0,"a":1.5}', False, id="a-float-for-an-integer"),
        pytest.param(b'{"b":1,"a":1.50000000000000000001}', False, id="rounded"),
        pytest.param(b'{"b":1,"a":1.5,"a":1.5}', False, id="a-key-twice"),
        pytest.param(b'{"b":1,"a":NaN}', False, id="no-json"),
        pytest.param(b'{"b":1,"a":1e400}', False, id="past-a-float"),
    ],
)
def test_a_payload_and_a_body_are_alike_where_nothing_would_be_lost(body, alike):
    assert is_alike({"b": 1, "a": 1.5}, body) is alike


def test_what_cannot_be_encoded_is_like_nothing():
    assert not is_alike({"a": "\ud800"}, rb'{"a":"\ud800"}')
