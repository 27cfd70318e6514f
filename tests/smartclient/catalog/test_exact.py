"""Money is never rounded in silence."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, localcontext

import pytest

from smartclient.catalog.exact import per_million, plus, times


def test_the_precision_of_the_program_does_not_matter():
    with localcontext(Context(prec=1)):
        found = plus(times(Decimal("1.25"), Decimal(3)), per_million(Decimal(7)))

    assert found == Decimal("3.750007")


def test_what_cannot_be_exact_is_an_error():
    with pytest.raises(Inexact):
        plus(Decimal("1e60"), Decimal("1e-60"))
