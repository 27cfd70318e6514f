"""Requests are strict JSON."""

from __future__ import annotations

import pytest

from smartclient.wire.encode import encode


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
