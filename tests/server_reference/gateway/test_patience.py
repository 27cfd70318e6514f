from __future__ import annotations

import pytest

from server_reference.api.record import CallRecord
from server_reference.gateway.patience import note_patience


@pytest.mark.parametrize(
    ("headers", "deadline", "silence"),
    [
        pytest.param({}, None, None, id="nothing"),
        pytest.param({"x-envoy-expected-rq-timeout-ms": "1500"}, 1.5, None, id="envoy"),
        pytest.param({"x-stainless-timeout": "600"}, None, 600.0, id="sdk"),
        pytest.param(
            {"x-stainless-timeout": "600", "x-stainless-read-timeout": "5.5"}, None, 5.5, id="both"
        ),
        pytest.param({"x-stainless-timeout": "None"}, None, None, id="no-number"),
        pytest.param({"x-stainless-timeout": "nan"}, None, None, id="not-a-number"),
        pytest.param({"x-stainless-timeout": "inf"}, None, None, id="for-ever"),
        pytest.param({"x-envoy-expected-rq-timeout-ms": "0"}, None, None, id="zero-is-no-limit"),
        pytest.param({"x-envoy-expected-rq-timeout-ms": "-9"}, None, None, id="negative"),
    ],
)
def test_headers_say_how_long_a_client_waits(headers, deadline, silence):
    record = CallRecord("/v1/messages")

    note_patience(record, headers)

    assert (record.deadline, record.silence) == (deadline, silence)
