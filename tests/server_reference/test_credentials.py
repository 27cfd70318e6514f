"""What carries a key is known once, and never shown."""

from __future__ import annotations

import pytest

from server_reference import credentials as creds
from server_reference.gateway.auth import ApiKeys

KEY = "sk-live-0123456789"


@pytest.mark.parametrize("name", creds.KEY_HEADERS)
def test_a_header_that_lets_a_key_in_is_redacted(name):
    value = f"Bearer {KEY}" if name == "authorization" else KEY

    assert ApiKeys([KEY]).tenant({name: value}) == "tenant-1"
    assert KEY not in str(creds.redact_headers([(name, value)]))


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        pytest.param("Authorization", f"Bearer {KEY}", "Bearer [redacted]", id="scheme-stays"),
        pytest.param("authorization", KEY, "[redacted]", id="no-scheme"),
        pytest.param("Cookie", f"a={KEY}; b=2", "[redacted]", id="cookie"),
        pytest.param("Set-Cookie", f"a={KEY}; Path=/", "[redacted]", id="set-cookie"),
        pytest.param("x-vendor-api-key", KEY, "[redacted]", id="unknown-vendor"),
        pytest.param("x-vendor-auth-token", KEY, "[redacted]", id="unknown-token"),
        pytest.param("x-ratelimit-remaining-tokens", "10", "10", id="tokens-are-no-token"),
        pytest.param("anthropic-version", "2023-06-01", "2023-06-01", id="no-secret"),
    ],
)
def test_headers(name, value, shown):
    assert creds.redact_headers([(name, value)]) == ((name, shown),)


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        pytest.param(f"/v1?key={KEY}&a=1", "/v1?key=[redacted]&a=1", id="key"),
        pytest.param(f"/v1?API_KEY={KEY}", "/v1?API_KEY=[redacted]", id="another-case"),
        pytest.param(f"http://me:{KEY}@a/v1", "http://[redacted]@a/v1", id="user"),
        pytest.param("/v1?keys=2&flag", "/v1?keys=2&flag", id="no-secret"),
    ],
)
def test_targets(target, shown):
    assert creds.redact_target(target) == shown


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f'{{"api_key": "{KEY}"}}', id="field"),
        pytest.param(f'{{"headers": {{"Authorization":"Bearer {KEY}"}}}}', id="header-in-a-field"),
        pytest.param(f'{{"arguments": "{{\\"password\\": \\"{KEY}\\"}}"}}', id="json-in-json"),
        pytest.param(f'{{"client_secret": "a\\"{KEY}', id="cut-off"),
        pytest.param(f'{{"text": "my key is {KEY}"}}', id="said-elsewhere"),
    ],
)
def test_bodies(body):
    secrets = creds.secrets_in([("x-api-key", KEY)]) if "my key" in body else ()

    shown = creds.redact_body(body.encode(), secrets)

    assert KEY.encode() not in shown
    assert b"[redacted]" in shown


def test_a_body_without_secrets_stays_as_it_is():
    body = b'{"max_tokens": 5, "password": {"type": "string"}, "signature": "abc", "key": "a"}'

    assert creds.redact_body(body) == body


def test_secrets_are_found_wherever_they_travel():
    headers = [("authorization", f"Bearer {KEY}"), ("cookie", "a=first-cookie; b=second-cookie")]

    found = creds.secrets_in(headers, "/v1?key=another-secret-key&a=1")

    assert set(found) == {KEY, "first-cookie", "second-cookie", "another-secret-key"}
