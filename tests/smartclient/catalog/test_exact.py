"""Money is never rounded in silence."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction

import pytest

from smartclient.catalog.exact import per_million, plus, times


def test_the_precision_of_the_program_does_not_matter():
    with localcontext(Context(prec=1)):
        found = plus(times(Decimal("1.25"), Decimal(3)), per_million(Decimal(7)))

    assert found == Decimal("3.750007")


def test_the_longest_price_times_the_longest_factor_is_exact():
    price, factor = Decimal("999999999999.000000000001"), Decimal("1.000000000001")

    found = times(times(price, Decimal(10**15 + 1)), factor)

    assert Fraction(found) == Fraction(price) * (10**15 + 1) * Fraction(factor)


def test_what_cannot_be_exact_is_an_error():
    with pytest.raises(Inexact):
        plus(Decimal("1e60"), Decimal("1e-60"))
