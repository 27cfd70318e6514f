"""Errors in the two shapes, and how the SDKs and our client read them."""

from __future__ import annotations

import json

import pytest

from server_reference.scripted.providers.refusals import REFUSALS, invalid, refusal
from smartclient.wire.failures import read_failure

ANTHROPIC_MONEY = {
    "enforced_spend_limit_reached": 429,
    "contract_spend_limit_reached": 429,
    "linked_organization_spend_limit_reached": 402,
    "billing_error": 402,
    "own_spend_limit_reached": 400,
}
OPENAI_MONEY = [
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
]


@pytest.mark.parametrize("code", OPENAI_MONEY)
def test_money_at_openai_is_a_429_of_type_insufficient_quota(code):
    refused = refusal(code)

    assert refused.status == 429
    assert refused.body["error"]["type"] == "insufficient_quota"
    assert refused.body["error"]["code"] == code


@pytest.mark.parametrize(("name", "status"), ANTHROPIC_MONEY.items())
def test_money_at_anthropic_has_the_status_of_its_kind(name, status):
    assert refusal(name).status == status
    assert refusal(name).body["type"] == "error"


@pytest.mark.parametrize(
    "code",
    [
        "ramp_limit_exceeded",
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "linked_organization_spend_limit_reached",
    ],
)
def test_a_finer_code_of_anthropic_stands_in_the_details(code):
    assert refusal(code).body["error"]["details"] == {"error_code": code}


def test_all_money_is_marked_as_such():
    money = {name for name, kind in REFUSALS.items() if kind.is_money}

    assert money == {*ANTHROPIC_MONEY, *OPENAI_MONEY}


@pytest.mark.parametrize(
    ("name", "status", "type_", "code"),
    [
        ("overloaded_error", 529, "overloaded_error", None),
        ("server_is_overloaded", 503, "server_error", "server_is_overloaded"),
        ("slow_down", 429, "rate_limit_error", "slow_down"),
        ("ramp_limit_exceeded", 429, "rate_limit_error", None),
        ("rate_limit_error", 429, "rate_limit_error", None),
        ("rate_limit_exceeded", 429, "requests", "rate_limit_exceeded"),
    ],
)
def test_limits_and_overload_look_as_their_provider_words_them(name, status, type_, code):
    refused = refusal(name)

    error = refused.body["error"]
    assert (refused.status, error["type"], error.get("code")) == (status, type_, code)


@pytest.mark.parametrize("name", [*OPENAI_MONEY, "billing_error", "enforced_spend_limit_reached"])
def test_our_client_takes_them_for_money(name):
    refused = refusal(name)

    failure = read_failure(refused.status, json.dumps(refused.body).encode())

    assert (failure.kind, failure.is_transient) == ("money", False)


def test_a_refusal_may_ask_to_wait_and_forbid_to_retry():
    refused = refusal("overloaded_error", retry_after=3600, should_retry=False)

    assert refused.headers == {"retry-after": "3600", "x-should-retry": "false"}


def test_an_unknown_refusal_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'overloaded_error'"):
        refusal("overload_error")


def test_it_can_be_answered_by_a_rule():
    answer = refusal("slow_down", retry_after=1).answer()

    assert (answer.status, answer.headers) == (429, {"retry-after": "1"})
    assert json.loads(answer.body or b"")["error"]["code"] == "slow_down"


@pytest.mark.parametrize(
    ("vendor", "error"),
    [
        ("anthropic", {"type": "invalid_request_error", "message": "a.b: is wrong"}),
        (
            "openai",
            {
                "type": "invalid_request_error",
                "message": "is wrong",
                "param": "a.b",
                "code": None,
            },
        ),
    ],
)
def test_a_broken_rule_names_its_field(vendor, error):
    assert invalid(vendor, "is wrong", param="a.b").body["error"] == error
