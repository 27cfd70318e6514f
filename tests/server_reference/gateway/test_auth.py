from __future__ import annotations

import pytest

from server_reference.api.errors import ApiError
from server_reference.gateway.auth import NOBODY, ApiKeys


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"x-api-key": "k2"}, id="x-api-key"),
        pytest.param({"authorization": "Bearer k2"}, id="bearer"),
        pytest.param({"authorization": "bearer  k2 "}, id="bearer-in-another-case"),
        pytest.param({"x-api-key": "other", "authorization": "Bearer k2"}, id="one-of-both"),
    ],
)
def test_a_key_names_its_tenant(headers):
    assert ApiKeys({"k1": "one", "k2": "two"}).tenant(headers) == "two"


def test_listed_keys_name_tenants_by_their_place():
    keys = ApiKeys(["k1", "k2"])

    assert keys.tenant({"x-api-key": "k1"}) == "tenant-1"
    assert keys.tenant({"x-api-key": "k2"}) == "tenant-2"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="none"),
        pytest.param({"x-api-key": ""}, id="empty"),
        pytest.param({"x-api-key": "k"}, id="prefix"),
        pytest.param({"x-api-key": "k1x"}, id="longer"),
        pytest.param({"x-api-key": "K1"}, id="another-case"),
        pytest.param({"authorization": "k1"}, id="no-scheme"),
        pytest.param({"authorization": "Basic k1"}, id="another-scheme"),
        pytest.param({"x-api-key": "k\xff"}, id="not-ascii"),
    ],
)
def test_a_missing_or_wrong_key_is_refused_without_repeating_it(headers):
    with pytest.raises(ApiError) as refused:
        ApiKeys(["k1"]).tenant(headers)

    assert refused.value.status("anthropic") == 401
    assert "k1" not in refused.value.message


@pytest.mark.parametrize("none", [None, [], {}])
def test_without_keys_everyone_is_let_in(none):
    assert ApiKeys(none).tenant({}) == NOBODY


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        pytest.param([""], "empty", id="empty"),
        pytest.param(["a", "a"], "twice", id="twice"),
        pytest.param("abc", "not one string", id="a-string"),
        pytest.param(5, "must be a list or a mapping, not int", id="a-number"),
        pytest.param([5], "no string", id="key-no-string"),
        pytest.param({"a": 5}, "no string", id="tenant-no-string"),
        pytest.param(["k\xe9"], "ASCII", id="not-ascii"),
        pytest.param(["a b"], "ASCII", id="space"),
        pytest.param(["a\n"], "ASCII", id="line-break"),
    ],
)
def test_keys_that_cannot_be_meant_are_refused(keys, why):
    with pytest.raises(ValueError, match=why):
        ApiKeys(keys)
