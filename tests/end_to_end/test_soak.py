"""Streams that end in every way there is leave nothing behind, on either side.

A few hundred in the ordinary run, 10,000 with `--all`. The seed is printed where a case
fails; `SOAK_SEED=7 scripts/test tests/end_to_end/test_soak.py` plays another, and
`SOAK_STREAMS` sets how many there are in all.

The reports behind it: encode/httpcore#1093 and #658 (places lost to cancellation),
encode/httpx#1461 (streams left half-read), encode/httpcore#943 (HTTP/2 streams never reset),
openai-python#1181 (memory of clients), litellm PR#30245 (abandoned streams hold connections).
"""

from __future__ import annotations

import os
import sys

import pytest

from .soak import CASES, Case, Result, soak

SEED = int(os.environ.get("SOAK_SEED", "1"))
SHORT, LONG = 240, 10_000


def checked(case: Case, streams: int) -> Result:
    print(f"seed {SEED}: SOAK_SEED={SEED} plays the same streams again")
    result = soak(case, streams=streams, seed=SEED)
    print(dict(result.outcomes), result.objects, result.memory)
    print(result.counters)
    counters = result.counters

    assert result.unexpected == []
    assert result.left == {}
    assert sum(result.outcomes.values()) == streams // 3 * 3
    # A connection that was given up while it was opened is one of the server's only.
    assert result.opened <= counters.connections_opened <= result.opened + result.early
    assert (counters.connections_open, counters.streams_open) == (0, 0)
    return result


def num_streams(default: int) -> int:
    return int(os.environ.get("SOAK_STREAMS", str(default))) // len(CASES)


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_streams_that_end_in_every_way_leave_nothing(case):
    checked(case, num_streams(SHORT))


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ten_thousand_streams_leave_nothing_and_take_no_more_memory(case):
    streams = num_streams(LONG)
    result = checked(case, streams)
    counters = result.counters

    assert counters.closes_before_end > streams / 20
    if case.protocol == "h2":  # what goes with its connection needs no reset of its own
        assert counters.resets_seen > 0.8 * counters.closes_before_end
    _, second, last = result.objects
    assert last - second < streams / 3, f"objects after each third: {result.objects}"
    _, second, last = result.memory
    # The SDKs' own clients bring a TLS context each, which malloc keeps for a while per thread.
    assert last - second < 8 << 20, f"resident bytes after each third: {result.memory}"
