"""Every form of retry-after, as its source writes it."""

from __future__ import annotations

import pytest

from server_reference.scripted.providers.retry_after import RETRY_AFTER_FORMS, retry_after

EXAMPLE = 784111777.0  # the moment of RFC 9110's examples


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        ("seconds", {"retry-after": "2"}),
        ("fraction", {"retry-after": "1.500"}),
        ("ms", {"retry-after-ms": "1500"}),
        ("both", {"retry-after": "2", "retry-after-ms": "1500"}),
        ("none", {}),
        ("negative", {"retry-after": "-5"}),
        ("huge", {"retry-after": "100000"}),
        ("infinite", {"retry-after": "inf"}),
        ("not_a_number", {"retry-after": "nan"}),
        ("word", {"retry-after": "soon"}),
        ("empty", {"retry-after": ""}),
        ("year_99999", {"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}),
    ],
)
def test_a_wait_of_a_second_and_a_half(form, fields):
    assert retry_after(1.5, form=form) == fields


@pytest.mark.parametrize(
    ("form", "name", "least"),
    [("fraction", "retry-after", 1.2341), ("ms", "retry-after-ms", 1234.1)],
)
def test_who_waits_as_told_never_comes_too_early(form, name, least):
    assert least <= float(retry_after(1.2341, form=form)[name]) < least * 1.01
    assert retry_after(2.007, form="ms") == {"retry-after-ms": "2007"}


@pytest.mark.parametrize(
    ("form", "date"),
    [
        ("imf_fixdate", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("rfc850", "Sunday, 06-Nov-94 08:49:37 GMT"),
        ("asctime", "Sun Nov  6 08:49:37 1994"),
    ],
)
def test_the_three_dates_are_those_of_the_rfc(form, date):
    assert retry_after(7, form=form, now=EXAMPLE - 7) == {"retry-after": date}


def test_a_date_in_the_past_lies_an_hour_back():
    assert retry_after(7, form="past", now=EXAMPLE + 3600) == {
        "retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"
    }


def test_an_unknown_form_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'imf_fixdate'"):
        retry_after(1, form="imf_date")


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_wait_must_be_finite_and_not_negative(seconds):
    with pytest.raises(ValueError, match="at least 0 s and finite"):
        retry_after(seconds)


def test_every_form_can_be_said():
    fields = [retry_after(3, form=form, now=EXAMPLE) for form in RETRY_AFTER_FORMS]

    assert {name for one in fields for name in one} == {"retry-after", "retry-after-ms"}
