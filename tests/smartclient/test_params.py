"""What is for the provider, and what is for us."""

from __future__ import annotations

import pytest

from smartclient._params import split
from smartclient._request import UNSET


def test_our_own_arguments_stay_out_of_the_body():
    payload, given = split({"model": "tiny", "timeout": None, "extra_query": {"a": 1}}, "model")

    assert payload == {"model": "tiny"}
    assert (given.timeout, given.extra_query) == (None, {"a": 1})


def test_what_was_not_given_is_not_none():
    _, given = split({})

    assert given.timeout is UNSET
    assert repr(given.timeout) == "UNSET"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        pytest.param({"model": "tiny"}, "the call needs max_tokens$", id="one"),
        pytest.param({}, "the call needs model and max_tokens$", id="two"),
    ],
)
def test_a_missing_parameter_is_named(params, message):
    with pytest.raises(TypeError, match=message):
        split(params, "model", "max_tokens")
