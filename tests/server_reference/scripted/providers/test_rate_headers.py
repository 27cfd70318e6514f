"""Durations as Go writes them, moments as RFC 3339 does."""

from __future__ import annotations

import pytest

from server_reference.scripted.providers.rate_headers import go_duration, rfc3339


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0001, "1ms"),
        (0.012, "12ms"),
        (0.9999, "1s"),
        (1, "1s"),
        (1.5, "1.5s"),
        (1.005, "1.005s"),
        (2.007, "2.007s"),
        (59.9999, "1m0s"),
        (60, "1m0s"),
        (360, "6m0s"),
        (3600, "1h0m0s"),
        (5025.25, "1h23m45.25s"),
    ],
)
def test_a_duration(seconds, text):
    assert go_duration(seconds) == text


@pytest.mark.parametrize(
    ("at", "text"), [(0, "1970-01-01T00:00:00Z"), (1.001, "1970-01-01T00:00:02Z")]
)
def test_a_moment_is_rounded_up_to_seconds(at, text):
    assert rfc3339(at) == text
