"""The bytes of each fault that refuses a request: statuses, waits and errors."""

from __future__ import annotations

import json

import pytest

from server_reference.scripted.faults import fault
from tests.end_to_end.fault_bytes import ANSWER, play


def refused(name, *, api="openai.chat", headers=None, **parameters):
    """Status, fields, and the error's object."""
    seen = play(ANSWER | fault(name, **parameters), api, headers=headers)
    status, *lines = seen.head.decode().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines)
    assert len(seen.chunks[0]) == int(fields["content-length"])
    return int(status.split()[1]), fields, json.loads(seen.chunks[0])["error"]


@pytest.mark.parametrize("status", [400, 408, 409, 425, 429, 500, 501, 503, 529])
def test_a_status_is_refused(status):
    got, fields, error = refused("refused_status", status=status, retry_after=2.5)

    assert (got, fields["retry-after"], fields["content-type"]) == (status, "3", "application/json")
    assert error["message"]


def test_a_refusal_has_the_shape_of_the_api():
    got, fields, error = refused("refused_status", api="anthropic.messages", status=529)

    assert (got, error) == (529, {"type": "overloaded_error", "message": "overloaded"})
    assert "retry-after" not in fields


WAITS = [
    ("retry_after_huge", {}, {"retry-after": "100000"}),
    ("retry_after_infinite", {}, {"retry-after": "inf"}),
    ("retry_after_nan", {}, {"retry-after": "nan"}),
    ("retry_after_negative", {}, {"retry-after": "-5"}),
    ("retry_after_past", {}, {"retry-after": "Tue, 14 Nov 2023 21:13:20 GMT"}),
    ("retry_after_date", {}, {"retry-after": "Tue, 14 Nov 2023 22:13:21 GMT"}),
    (
        "retry_after_date",
        {"form": "rfc850"},
        {"retry-after": "Tuesday, 14-Nov-23 22:13:21 GMT"},
    ),
    ("retry_after_date", {"form": "asctime"}, {"retry-after": "Tue Nov 14 22:13:21 2023"}),
    ("retry_after_far_year", {}, {"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}),
    ("retry_after_word", {}, {"retry-after": "soon"}),
    ("retry_after_empty", {}, {"retry-after": ""}),
    ("retry_after_fraction", {}, {"retry-after": "0.250"}),
    ("retry_after_ms", {}, {"retry-after": "1", "retry-after-ms": "50"}),
    ("retry_after_ms", {"seconds": None}, {"retry-after-ms": "50"}),
    ("should_not_retry", {}, {"x-should-retry": "false"}),
]


@pytest.mark.parametrize(("name", "parameters", "said"), WAITS)
def test_a_refusal_asks_for_a_wait_in_this_form(name, parameters, said):
    status, fields, _ = refused(name, **parameters)

    assert status == 429
    assert {n: v for n, v in fields.items() if n.startswith(("retry", "x-should"))} == said


def test_a_final_status_can_be_asked_again():
    status, fields, _ = refused("should_retry")

    assert (status, fields["x-should-retry"]) == (400, "true")


@pytest.mark.parametrize(
    ("api", "parameters", "status", "type"),
    [
        ("openai.chat", {}, 429, "insufficient_quota"),
        ("anthropic.messages", {}, 429, "rate_limit_error"),
        ("anthropic.messages", {"error": "billing_error"}, 402, "billing_error"),
    ],
)
def test_money_runs_out(api, parameters, status, type):
    got, _, error = refused("quota_exceeded", api=api, **parameters)

    assert (got, error["type"]) == (status, type)


def test_an_error_has_a_long_body():
    status, _, error = refused("large_error_body", kib=64)

    assert (status, error["message"]) == (429, "a" * 64 * 1024)


def test_a_compressed_request_is_refused():
    status, fields, _ = refused("refused_encoding", headers={"content-encoding": "zstd"})

    assert (status, fields["accept-encoding"]) == (415, "identity")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("surrogate_refused", "no low surrogate"),
        ("too_many_breakpoints", "at most 4 blocks may have cache_control, and 5 have it"),
        ("ttl_order", "a cache_control with ttl='1h' must not come after one with ttl='5m'"),
    ],
)
def test_a_request_is_refused_for_what_is_in_it(name, text):
    status, _, error = refused(name, api="anthropic.messages")

    assert (status, error["type"]) == (400, "invalid_request_error")
    assert text in error["message"]


TESTED = {name for name, _, _ in WAITS} | {
    "large_error_body",
    "quota_exceeded",
    "refused_status",
    "should_retry",
    "surrogate_refused",
    "too_many_breakpoints",
    "ttl_order",
}
