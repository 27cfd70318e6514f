"""What carries a key is known once, and never shown."""

from __future__ import annotations

import pytest

from server_reference import credentials as creds
from server_reference.gateway.auth import ApiKeys

KEY = "sk-live-0123456789"
VENDORS = "sk-proj-0123456789abcdefghij"


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
        pytest.param("cf-aig-authorization", f"Bearer {KEY}", "Bearer [redacted]", id="a-gateway"),
        pytest.param("x-forwarded-authorization", KEY, "[redacted]", id="forwarded"),
        pytest.param("x-portkey-virtual-key", KEY, "[redacted]", id="virtual-key"),
        pytest.param("x-portkey-aws-access-key-id", KEY, "[redacted]", id="key-id"),
        pytest.param("private-token", KEY, "[redacted]", id="token"),
        pytest.param("x-goog-iap-jwt-assertion", KEY, "[redacted]", id="assertion"),
        pytest.param("x-mine", f"a {VENDORS}, b", "a [redacted], b", id="shape-of-a-key"),
        pytest.param("referer", f"https://me:{KEY}@a/", "https://[redacted]@a/", id="user"),
        pytest.param("referer", f"https://a/?key={KEY}", "https://a/?key=[redacted]", id="address"),
        pytest.param("host", f"me:{KEY}@a:80", "[redacted]@a:80", id="host"),
        pytest.param("idempotency-key", KEY, KEY, id="a-key-that-opens-nothing"),
        pytest.param("x-page-token", KEY, KEY, id="a-token-that-opens-nothing"),
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
        pytest.param(f"/v1?a=1;key={KEY};b", "/v1?a=1;key=[redacted];b", id="semicolons"),
        pytest.param(f"/v1?api%5Fkey={KEY}", "/v1?api%5Fkey=[redacted]", id="escaped-name"),
        pytest.param(f"/v1?authorization={KEY}", "/v1?authorization=[redacted]", id="long-name"),
        pytest.param(f"/v1/keys/{VENDORS}", "/v1/keys/[redacted]", id="in-the-path"),
        pytest.param(f"/v1?page_token={KEY}", f"/v1?page_token={KEY}", id="of-a-page"),
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
        pytest.param(f'{{"a": "{{\\\\\\"api_key\\\\\\": \\\\\\"{KEY}', id="json-in-json-in-json"),
        pytest.param(f'{{"text": "my key is {KEY}"}}', id="said-elsewhere"),
        pytest.param(f'{{"secretAccessKey": "{KEY}"}}', id="camel-case"),
        pytest.param(f'{{"api_keys": ["a", "{KEY}"]}}', id="list"),
        pytest.param(f"{{'api_key': '{KEY}'}}", id="single-quotes"),
        pytest.param(f"grant_type=x&client_secret={KEY}", id="form"),
        pytest.param(f'--b\r\na; name="api_key"\r\n\r\n{KEY}\r\n--b--', id="part-of-a-form"),
        pytest.param(f'{{"url": "https://a/?X-Amz-Signature={KEY}"}}', id="address"),
        pytest.param(f'{{"text": "curl -H \'a: Bearer {KEY}\'"}}', id="bearer"),
    ],
)
def test_bodies(body):
    secrets = creds.secrets_in([("x-api-key", KEY)]) if "my key" in body else ()

    shown = creds.redact_body(body.encode(), secrets)

    assert KEY.encode() not in shown
    assert b"[redacted]" in shown


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("sk-ant-api03-0123456789abcdefghij", id="anthropic"),
        pytest.param("sk-proj-0123456789-abc_defghij", id="openai"),
        pytest.param("sk-or-v1-0123456789abcdef0123", id="openrouter"),
        pytest.param("AIza0123456789abcdefghijklmnopqrstuvwxy", id="google"),
        pytest.param("gsk_0123456789abcdefghij", id="groq"),
        pytest.param("xai-0123456789abcdefghij", id="xai"),
        pytest.param("hf_abcdefghijklmnopqrstuv", id="hugging-face"),
        pytest.param("ghp_0123456789abcdefghij0123456789", id="github"),
        pytest.param("AKIA0123456789ABCDEF", id="aws"),
        pytest.param("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", id="jwt"),
    ],
)
def test_the_shape_of_a_key_is_known_wherever_it_stands(key):
    body = f'{{"messages": [{{"content": "mine is {key}, and yours?"}}]}}'.encode()

    assert creds.redact_body(body) == body.replace(key.encode(), b"[redacted]")
    assert creds.redact_text(f"wrong key: {key}.").startswith("wrong key: [redacted]")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a task-oriented-dialogue-of-2026-and-more", id="task"),
        pytest.param("sk-some-words-that-are-a-slug-of-a-page", id="slug"),
        pytest.param('{"logprobs": [{"token": "Hello", "bytes": [72]}]}', id="tokens"),
        pytest.param('{"prompt_cache_key": "user-1234567"}', id="cache-key"),
        pytest.param("the bearer of good news", id="bearer"),
        pytest.param('{"secrets": 5, "api_keys": []}', id="no-texts"),
    ],
)
def test_what_only_looks_like_a_secret_stays(text):
    assert creds.redact_body(text.encode()) == text.encode()


def test_a_body_without_secrets_stays_as_it_is():
    body = b'{"max_tokens": 5, "password": {"type": "string"}, "signature": "abc", "key": "a"}'

    assert creds.redact_body(body) == body


def test_secrets_are_found_wherever_they_travel():
    headers = [("authorization", f"Bearer {KEY}"), ("cookie", "a=first-cookie; b=second-cookie")]

    found = creds.secrets_in(headers, "/v1?key=another-secret-key&a=1;token=one%2Bone%3Dtwo")

    assert set(found) == {
        *(KEY, "first-cookie", "second-cookie", "another-secret-key"),
        *("one%2Bone%3Dtwo", "one+one=two", "one%252Bone%253Dtwo"),
    }
