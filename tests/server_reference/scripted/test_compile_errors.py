from __future__ import annotations

import pytest

from server_reference.scripted.answers import ErrorAnswer
from server_reference.scripted.compile_errors import error_fields, id_header, speaks_anthropic
from server_reference.scripted.request import Received
from tests.server_reference.scripted.received import a_request


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_a_status_has_its_type_in_messages(status, kind):
    fields = error_fields(ErrorAnswer(status), a_request())

    assert (fields["type"], fields["error"]["type"]) == ("error", kind)
    assert fields["request_id"] == "req_scripted0000000000000001"


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, "invalid_request_error", "invalid_api_key"),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (500, "server_error", None),
        (503, "server_error", "server_is_overloaded"),
    ],
)
def test_a_status_has_its_type_and_code_in_openai_s_formats(status, kind, code):
    error = error_fields(ErrorAnswer(status), a_request("openai.chat"))["error"]

    assert (error["type"], error["code"], error["param"]) == (kind, code, None)


def test_own_words_go_before():
    given = ErrorAnswer(429, type="insufficient_quota", message="pay", code="x", param="model")

    error = error_fields(given, a_request("openai.responses"))["error"]

    assert error == {
        "type": "insufficient_quota", "message": "pay", "code": "x", "param": "model"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "headers", "is_anthropic"),
    [
        ("/v1/messages/count_tokens", (), True),
        ("/v1/models", (("anthropic-version", "2023-06-01"),), True),
        ("/v1/models", (), False),
    ],
)
def test_an_unknown_endpoint_s_shape_is_its_caller_s(path, headers, is_anthropic):
    assert speaks_anthropic(Received("GET", path, headers)) is is_anthropic


@pytest.mark.parametrize(
    ("api", "name"), [("anthropic.messages", "request-id"), ("openai.chat", "x-request-id")]
)
def test_the_request_s_id_is_in_the_api_s_header(api, name):
    assert id_header(a_request(api))[0] == name
