"""Usage in its one normal form."""

from __future__ import annotations

import pytest

from smartclient.wire import Usage


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        pytest.param(Usage(), None, id="nothing-told"),
        pytest.param(Usage(cache_read=5), None, id="only-a-part-told"),
        pytest.param(Usage(uncached=3), 3, id="nothing-cached"),
        pytest.param(Usage(uncached=3, cache_read=7, cache_write={"5m": 4, "1h": 5}), 19, id="all"),
    ],
)
def test_the_parts_sum_to_the_input(usage, total):
    assert usage.input_tokens == total


def test_what_is_told_later_replaces_what_was_told_before():
    first = Usage(uncached=3, cache_read=1, output=1)

    assert first.updated(Usage(output=15, reasoning=0)) == Usage(
        uncached=3, cache_read=1, output=15, reasoning=0
    )
    assert first.updated(Usage()) == first
