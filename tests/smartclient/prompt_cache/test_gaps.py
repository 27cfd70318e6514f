"""The histogram of gaps."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache.gaps import Gaps


def gaps_of(*seconds):
    gaps = Gaps()
    for one in seconds:
        gaps.add(one)
    return gaps


def test_without_a_gap_the_prior_is_what_is_believed():
    assert Gaps().within(300.0, prior=0.3) == 0.3


@pytest.mark.parametrize(
    ("gap", "ttl", "share"),
    [
        pytest.param(299.9, 300.0, 0.75, id="just-in-time"),
        pytest.param(300.0, 300.0, 0.25, id="at-its-end-it-is-gone"),
        pytest.param(1799.0, 1800.0, 0.75, id="openai"),
        pytest.param(3600.0, 3600.0, 0.25, id="an-hour"),
        pytest.param(10**9, 86_400.0, 0.25, id="years"),
    ],
)
def test_a_gap_counts_within_a_time_to_live_that_is_longer(gap, ttl, share):
    assert gaps_of(gap).within(ttl, prior=0.5) == share


def test_what_was_long_ago_counts_less_than_what_is():
    gaps = gaps_of(*[4000.0] * 60, *[10.0] * 60)

    assert gaps.within(300.0, prior=0.5) > 0.75
