"""Errors in every envelope that providers and proxies use."""

from __future__ import annotations

import pickle

import pytest

from smartclient.wire import Failure, failure_by_status
from smartclient.wire.encode import encode
from smartclient.wire.failures import malformed, read_failure, stream_failure


def error(**fields: object) -> bytes:
    return encode({"error": fields})


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_transient_status_may_pass(status):
    assert failure_by_status(status).is_transient
    assert read_failure(status, b"").is_transient


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 413, 422, 451, 501, 505])
def test_any_other_status_does_not(status):
    assert not failure_by_status(status).is_transient
    assert not read_failure(status, error(type="overloaded_error", message="x")).is_transient


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid"), (401, "authentication"), (402, "money"), (403, "authentication"),
     (404, "invalid"), (413, "invalid"), (422, "invalid"), (408, "timeout"), (429, "rate_limited"),
     (500, "server"), (501, "server"), (502, "server"), (503, "overloaded"), (504, "timeout"),
     (529, "overloaded")],
)  # fmt: skip
def test_a_status_alone_has_a_kind(status, kind):
    assert read_failure(status, b"").kind == kind


def test_an_anthropic_error_is_read():
    body = encode({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    assert read_failure(529, body) == Failure(
        kind="overloaded",
        status=529,
        type="overloaded_error",
        message="Overloaded",
        is_transient=True,
    )


def test_an_openai_error_is_read():
    body = error(
        message="Bad key", type="invalid_request_error", param=None, code="invalid_api_key"
    )

    assert read_failure(401, body) == Failure(
        kind="authentication",
        status=401,
        type="invalid_request_error",
        code="invalid_api_key",
        message="Bad key",
    )


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        pytest.param(429, {"type": "insufficient_quota", "code": "insufficient_quota"}, id="quota"),
        pytest.param(429, {"type": "insufficient_quota", "code": None}, id="type-alone"),
        pytest.param(429, {"type": "x", "code": "credit_balance_exhausted"}, id="credit"),
        pytest.param(429, {"code": "organization_spend_limit_exceeded"}, id="organization-spend"),
        pytest.param(429, {"code": "project_spend_limit_exceeded"}, id="project-spend"),
        pytest.param(429, {"code": "organization_usage_limit_exceeded"}, id="organization-usage"),
        pytest.param(429, {"code": "billing_hard_limit_reached"}, id="hard-limit"),
        pytest.param(402, {"type": "billing_error"}, id="billing"),
        pytest.param(
            429,
            {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}},
            id="anthropic-enforced",
        ),
        pytest.param(
            400,
            {
                "type": "invalid_request_error",
                "details": {"error_code": "contract_spend_limit_reached"},
            },
            id="anthropic-contract",
        ),
    ],
)
def test_waiting_does_not_bring_money_back(status, fields):
    failure = read_failure(status, error(message="no", **fields))

    assert (failure.kind, failure.is_transient) == ("money", False)


def test_a_ramp_limit_is_no_money_matter():
    fields = {"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}}

    failure = read_failure(429, error(message="slow", **fields))

    assert (failure.kind, failure.code, failure.is_transient) == (
        "rate_limited", "ramp_limit_exceeded", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            b'{"error":{"code":"429","message":"Retry after 26 s"}}', "Retry after 26 s", id="azure"
        ),
        pytest.param(
            b'{"statusCode":429,"message":"Out of calls"}', "Out of calls", id="azure-gateway"
        ),
        pytest.param(b'{"error":"too busy"}', "too busy", id="error-is-text"),
        pytest.param(b'{"detail":"Not Found"}', "Not Found", id="fastapi"),
        pytest.param(b'{"detail":[{"loc":["body"]}]}', '[{"loc":["body"]}]', id="fastapi-list"),
        pytest.param(b'[{"error":{"message":"in a list"}}]', "in a list", id="list"),
        pytest.param(b'{"object":"error","message":"flat","code":429}', "flat", id="vllm-flat"),
        pytest.param(
            b"<html><head><title>502 Bad\n Gateway</title></head>",
            "an HTML page: 502 Bad Gateway",
            id="html",
        ),
        pytest.param(b"<p>no <b>title</b></p>", "no title", id="html-without-title"),
        pytest.param(b"upstream connect error", "upstream connect error", id="text"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="no-utf-8"),
        pytest.param(b"", "the reply has status 429 and says nothing more", id="empty"),
        pytest.param(b"null", "the reply has status 429 and says nothing more", id="null"),
        pytest.param(b"[]", "the reply has status 429 and says nothing more", id="empty-list"),
        pytest.param(
            b'{"error":{}}', "the reply has status 429 and says nothing more", id="empty-error"
        ),
        pytest.param(b'{"error":{"message":"half \\ud83d"}}', "half ?", id="half-a-surrogate-pair"),
    ],
)
def test_every_envelope_is_opened(body, message):
    failure = read_failure(429, body)

    assert failure.message == message
    assert failure.kind == "rate_limited"


def test_a_message_is_bounded():
    assert len(read_failure(400, error(message="x" * 10_000)).message) == 500
    assert len(read_failure(400, b"x" * 10_000).message) == 500
    assert len(malformed("x" * 10_000).message) == 500


def test_json_of_absurd_depth_is_only_text():
    assert read_failure(500, b"[" * 100_000).kind == "server"


@pytest.mark.parametrize(
    ("told", "kind", "is_transient"),
    [
        pytest.param({"type": "overloaded_error"}, "overloaded", True, id="overloaded"),
        pytest.param({"type": "rate_limit_error"}, "rate_limited", True, id="rate-limit"),
        pytest.param({"type": "api_error"}, "server", True, id="api-error"),
        pytest.param(
            {"type": "api_error", "message": "Overloaded"},
            "overloaded",
            True,
            id="only-the-text-says-overloaded",
        ),
        pytest.param({"type": "timeout_error"}, "timeout", True, id="timeout"),
        pytest.param({"type": "invalid_request_error"}, "invalid", False, id="invalid"),
        pytest.param(
            {"type": "authentication_error"}, "authentication", False, id="authentication"
        ),
        pytest.param({"type": "permission_error"}, "authentication", False, id="permission"),
        pytest.param(
            {"type": "server_error", "code": "insufficient_quota"}, "money", False, id="money"
        ),
        pytest.param({"code": 502, "message": "bad gateway"}, "server", True, id="status-as-code"),
        pytest.param({"code": 400}, "invalid", False, id="refusal-as-code"),
        pytest.param({"code": "501"}, "server", False, id="not-implemented-as-code"),
        pytest.param({"type": "brand_new"}, "server", True, id="unknown"),
        pytest.param("text", "server", True, id="text"),
        pytest.param({}, "server", True, id="empty"),
        pytest.param(True, "server", True, id="odd"),
    ],
)
def test_an_error_inside_a_stream_is_read_by_its_names(told, kind, is_transient):
    failure = stream_failure(told)

    assert (failure.kind, failure.is_transient, failure.status) == (kind, is_transient, None)
    assert failure.message


def test_a_failure_pickles():
    failure = read_failure(529, b"")

    assert pickle.loads(pickle.dumps(failure)) == failure
