"""How one sequence became another."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smartclient.prompt_cache.order import order_change


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param("abcd", "dabc", ("reorder", 1, ((3, 0),)), id="last-first"),
        pytest.param("abcd", "bcda", ("reorder", 1, ((0, 3),)), id="first-last"),
        pytest.param("ab", "ba", ("reorder", 1, ((1, 0),)), id="swapped"),
        pytest.param("abc", "xabc", ("added", 1, ()), id="one-more"),
        pytest.param("abc", "xyzabc", ("added", 3, ()), id="three-more"),
        pytest.param("abc", "c", ("removed", 2, ()), id="two-less"),
        pytest.param("abc", "", ("removed", 3, ()), id="none-left"),
        pytest.param("", "ab", ("added", 2, ()), id="all-new"),
        pytest.param("abc", "xbc", ("edit", 1, ()), id="another"),
        pytest.param("abab", "baab", ("reorder", 1, ((1, 0),)), id="equal-ones"),
    ],
)
def test_a_change_of_order_is_named(before, after, told):
    assert order_change(before, after) == told


@given(st.permutations(range(8)))
def test_as_few_as_can_be_have_moved(after):
    """Without them, what is left stands in its old order, and no longer run does."""
    assume(after[0] != 0)
    change = order_change(range(8), after)
    moved = {old for old, _ in change.moved}

    left = [one for one in after if one not in moved]

    assert left == sorted(left)
    assert len(left) == max(len(run) for run in rising_runs(after))


def rising_runs(numbers):
    runs = [[]]
    for number in numbers:
        runs += [[*run, number] for run in runs if not run or run[-1] < number]
    return runs


def test_ten_thousand_are_put_in_order_quickly():
    change = order_change(range(10_000), range(9_999, -1, -1))

    assert (change.kind, change.size) == ("reorder", 9_999)
