"""What changed text looks like: named where both sides show it, and only there."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache.patterns import PATTERNS, WORDS, pattern_of
from smartclient.prompt_cache.texts import shared_length

UUIDS = ("0b0e1c9e-6a3c-4f1e-9d3e-2f1b7a6c5d4e", "9f8e7d6c-5b4a-4f1e-8d3e-000000000001")
PAIRS = {
    "iso-day": ("2026-11-29", "2026-11-30", "iso_datetime"),
    "iso-second": ("2026-11-29T12:00:01Z", "2026-11-29T12:00:02Z", "iso_datetime"),
    "iso-zone": ("2026-11-29 12:00:01+01:00", "2026-11-29 12:00:01+02:00", "iso_datetime"),
    "iso-fraction": ("2026-11-29T12:00:01.123", "2026-11-29T12:00:01.9", "iso_datetime"),
    "clock": ("12:01", "12:03", "datetime"),
    "clock-pm": ("1:01 PM", "11:03 AM", "datetime"),
    "weekday": ("Sunday, 29 November 2026", "Monday, 30 November 2026", "datetime"),
    "american": ("Nov 29, 2026 at 12:01", "Nov 30, 2026 at 12:01", "datetime"),
    "slashes": ("11/29/2026", "11/30/2026", "datetime"),
    "uuid": (*UUIDS, "uuid"),
    "unix": ("1764460800", "1764460801", "unix_timestamp"),
    "unix-ms": ("1764460800123", "1764460800777", "unix_timestamp"),
    "request-id": ("req_01ABCdef2345", "req_01XYZdef2345", "request_id"),
    "completion-id": ("chatcmpl-9abc123def", "chatcmpl-1zzz123def", "request_id"),
    "hex": ("deadbeef01", "deadbeef02", "hex"),
    "path": ("/home/ann/work", "/home/bob/work", "path"),
    "windows-path": (r"C:\Users\ann", r"C:\Users\bob", "path"),
    "mail": ("ann@example.org", "bob@example.org", "username"),
    "user": ("user: ann", "user: bob", "username"),
    "token": ("k3J9xQ72mzP", "Zp1L0vY88ab", "random_token"),
    "counter": ("turn 9", "turn 10", "counter"),
    "thousands": ("1,024", "1,025", "counter"),
}


@pytest.mark.parametrize("around", [("", ""), ("It is <", "> now, and so on.")], ids=["bare", "in"])
@pytest.mark.parametrize(("old", "new", "pattern"), PAIRS.values(), ids=PAIRS)
def test_a_pattern_is_named_where_both_show_it(old, new, pattern, around):
    before, after = (around[0] + text + around[1] for text in (old, new))

    assert pattern_of(before, after, shared_length(before, after)) == pattern


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("3 apples", "4 oranges", id="another-sentence-after-a-number"),
        pytest.param("Be brief.", "Be kind.", id="words"),
        pytest.param("May I help?", "Can I help?", id="a-word-that-is-a-month"),
        pytest.param("on 2026-11-29 we", "on demand we", id="a-date-that-went"),
        pytest.param("", "12", id="nothing-before"),
        pytest.param("abcdefgh", "abcdefgi", id="letters"),
        pytest.param("and/or", "and/nor", id="a-slash"),
    ],
)
def test_what_is_not_on_both_sides_is_no_pattern(before, after):
    assert pattern_of(before, after, shared_length(before, after)) is None


def test_every_pattern_has_words():
    assert set(WORDS) == set(PATTERNS) == {pattern for _, _, pattern in PAIRS.values()}


@pytest.mark.parametrize("text", ["1" * 100_000, "a1-" * 30_000, "/a" * 50_000, "a.b@" * 25_000])
def test_long_runs_are_looked_at_in_a_window(text):
    """Only so many characters around the difference are searched."""
    assert pattern_of(text + "1", text + "2", len(text)) in (*PATTERNS, None)
