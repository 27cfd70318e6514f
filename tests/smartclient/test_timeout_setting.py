"""A timeout as a caller gives it: one number, none, or every stage."""

from __future__ import annotations

import math

import pytest

from smartclient import Timeout
from smartclient._timeout_setting import timeout_of


def test_one_number_is_the_longest_silence_and_shortens_the_rest():
    assert timeout_of(7, Timeout(total=50.0)) == Timeout(
        connect=5.0, pool=7, write=7, read=7.0, first_event=7.0, idle=7.0, total=50.0
    )


def test_a_stage_without_a_limit_stays_without():
    assert timeout_of(7, Timeout(connect=None)).connect is None


def test_none_waits_for_a_reply_for_ever():
    assert timeout_of(None, Timeout()) == Timeout(read=None, first_event=None, idle=None)


def test_a_whole_timeout_is_taken_as_it_is():
    given = Timeout(read=1.0, pool=None)

    assert timeout_of(given, Timeout(write=9.0)) is given


@pytest.mark.parametrize(
    "value", [0, -1, -0.5, math.nan, math.inf], ids=["zero", "minus", "half", "nan", "inf"]
)
def test_a_timeout_that_cannot_be_is_refused(value):
    with pytest.raises(ValueError, match=r"above 0 s.*use None for no limit"):
        timeout_of(value, Timeout())


@pytest.mark.parametrize("value", [True, "5", [5]], ids=["bool", "text", "list"])
def test_a_timeout_of_another_type_is_refused(value):
    with pytest.raises(TypeError, match="seconds or a Timeout"):
        timeout_of(value, Timeout())
