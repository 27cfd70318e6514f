from __future__ import annotations

import pytest

from server_reference.api.errors import ApiError
from server_reference.gateway.auth import NOBODY, AdminKey, ApiKeys


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


@pytest.mark.parametrize(
    "headers",
    [{"x-admin-key": "s"}, {"authorization": "Bearer s"}, {"authorization": "bearer  s"}],
)
def test_the_admin_key_lets_in_from_anywhere(headers):
    assert AdminKey("s", api_keys=["k"]).check(headers, "203.0.113.7") is True


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        pytest.param({}, "did not come; send x-admin-key", id="none"),
        pytest.param({"x-admin-key": "sesame"}, "is not known here", id="wrong"),
        pytest.param({"x-api-key": "k"}, "did not come", id="a-tenants"),
        pytest.param({"authorization": "Basic s"}, "did not come", id="another-scheme"),
    ],
)
def test_any_other_is_refused_even_on_the_same_machine(headers, said):
    with pytest.raises(ApiError, match=said) as refused:
        AdminKey("s", api_keys=["k"]).check(headers, "127.0.0.1")

    assert refused.value.kind == "unauthenticated"
    assert "sesame" not in refused.value.message


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_without_any_key_this_machine_is_let_in_as_no_admin(peer):
    assert AdminKey(None).check({}, peer) is False


@pytest.mark.parametrize(
    ("headers", "peer"),
    [
        pytest.param({}, "203.0.113.7", id="another-machine"),
        pytest.param({}, "::ffff:203.0.113.7", id="mapped"),
        pytest.param({}, None, id="unknown"),
        pytest.param({}, "localhost", id="a-name"),
        pytest.param({"x-forwarded-for": "203.0.113.7"}, "127.0.0.1", id="through-a-proxy"),
    ],
)
def test_without_any_key_other_machines_are_refused(headers, peer):
    with pytest.raises(ApiError, match="on the server's machine only"):
        AdminKey(None).check(headers, peer)


def test_with_tenants_and_no_admin_key_nobody_is_let_in():
    with pytest.raises(ApiError, match="start it with admin_key"):
        AdminKey(None, api_keys=["k"]).check({"x-api-key": "k"}, "127.0.0.1")


@pytest.mark.parametrize(
    ("key", "why"), [("", "at least one"), ("a b", "ASCII"), (7, "text"), ("k", "one of api_keys")]
)
def test_an_admin_key_that_cannot_be_meant_is_refused(key, why):
    with pytest.raises(ValueError, match=why):
        AdminKey(key, api_keys=["k"])
