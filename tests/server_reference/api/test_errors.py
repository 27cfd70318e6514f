from __future__ import annotations

import json

import pytest

from server_reference.api.errors import ApiError, error_response, shape_of, shortened


@pytest.mark.parametrize(
    ("kind", "status", "type"),
    [
        ("invalid", 400, "invalid_request_error"),
        ("unauthenticated", 401, "authentication_error"),
        ("not_found", 404, "not_found_error"),
        ("method_not_allowed", 405, "invalid_request_error"),
        ("too_large", 413, "request_too_large"),
        ("rate_limited", 429, "rate_limit_error"),
        ("overloaded", 529, "overloaded_error"),
        ("internal", 500, "api_error"),
    ],
)
def test_anthropic_names_an_error_by_its_status(kind, status, type):
    response = error_response(ApiError(kind, "what happened"), "anthropic", "req_1")

    assert response.status_code == status
    assert json.loads(response.body) == {
        "type": "error",
        "error": {"type": type, "message": "what happened"},
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    ("kind", "status", "type", "code"),
    [
        ("invalid", 400, "invalid_request_error", None),
        ("unauthenticated", 401, "invalid_request_error", "invalid_api_key"),
        ("not_found", 404, "invalid_request_error", None),
        ("too_large", 413, "invalid_request_error", "request_too_large"),
        ("rate_limited", 429, "rate_limit_error", "rate_limit_exceeded"),
        ("overloaded", 503, "server_error", "server_is_overloaded"),
        ("internal", 500, "server_error", None),
    ],
)
def test_openai_names_an_error_by_type_and_code(kind, status, type, code):
    response = error_response(ApiError(kind, "what happened", param="n"), "openai", "req_1")

    assert response.status_code == status
    assert json.loads(response.body)["error"] == {
        "message": "what happened",
        "type": type,
        "param": "n",
        "code": code,
    }


def test_a_reply_says_when_to_try_again():
    response = error_response(ApiError("rate_limited", "busy", retry_after=7), "openai", "req_1")

    assert response.headers["retry-after"] == "7"


def test_what_a_caller_sent_is_shown_in_part():
    assert shortened("x" * 80) == "x" * 80
    assert shortened("x" * 81) == "x" * 79 + "…"


@pytest.mark.parametrize(
    ("path", "headers", "shape"),
    [
        pytest.param("/v1/messages", {}, "anthropic", id="messages"),
        pytest.param("/v1/messages/count_tokens", {}, "anthropic", id="count-tokens"),
        pytest.param("/v1/chat/completions", {"x-api-key": "k"}, "openai", id="chat"),
        pytest.param("/v1/responses", {"x-api-key": "k"}, "openai", id="responses"),
        pytest.param("/v1/models", {}, "openai", id="models"),
        pytest.param(
            "/v1/models", {"anthropic-version": "2023-06-01"}, "anthropic", id="by-version"
        ),
        pytest.param("/nowhere", {"x-api-key": "k"}, "anthropic", id="by-key"),
    ],
)
def test_the_shape_is_that_of_the_callers_api(path, headers, shape):
    assert shape_of(path, headers) == shape
