"""Windows of time, in UTC."""

from __future__ import annotations

from calendar import timegm
from math import inf

import pytest

from smartclient.budgets.windows import length_of, named, window_of


def at(*when):
    return float(timegm((*when, *(0,) * (6 - len(when)))))


NOW = at(2024, 2, 29, 23, 59, 59) + 0.5


@pytest.mark.parametrize(
    ("per", "start", "end"),
    [
        pytest.param("minute", at(2024, 2, 29, 23, 59), at(2024, 3, 1), id="minute"),
        pytest.param("hour", at(2024, 2, 29, 23), at(2024, 3, 1), id="hour"),
        pytest.param("day", at(2024, 2, 29), at(2024, 3, 1), id="day"),
        pytest.param("month", at(2024, 2, 1), at(2024, 3, 1), id="month"),
        pytest.param(5, at(2024, 2, 29, 23, 59, 55), at(2024, 3, 1), id="seconds"),
        pytest.param(None, -inf, inf, id="for-ever"),
    ],
)
def test_a_moment_lies_in_its_window(per, start, end):
    assert window_of(per, NOW) == (start, end)


def test_the_end_of_a_window_is_in_the_next():
    assert window_of("month", at(2024, 12, 31, 23, 59))[1] == at(2025, 1, 1)
    assert window_of("month", at(2025, 1, 1))[0] == at(2025, 1, 1)


@pytest.mark.parametrize(
    ("per", "name", "length"),
    [
        pytest.param("hour", "an hour", 3600.0, id="hour"),
        pytest.param("month", "a month", 31 * 86_400.0, id="month"),
        pytest.param(90, "in 90 s", 90.0, id="seconds"),
        pytest.param(900, "in 15 minutes", 900.0, id="minutes"),
        pytest.param(3600, "an hour", 3600.0, id="seconds-of-an-hour"),
        pytest.param(7 * 86_400.0, "in 7 days", 604_800.0, id="days"),
        pytest.param(None, "in all", inf, id="for-ever"),
    ],
)
def test_a_window_has_a_name_and_a_length(per, name, length):
    assert (named(per), length_of(per)) == (name, length)
