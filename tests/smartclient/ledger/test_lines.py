"""Lines of a ledger that somebody else may have touched."""

from __future__ import annotations

from decimal import Decimal

import pytest

from smartclient.ledger.lines import encoded, entry_in
from tests.smartclient.ledger.entries import an_entry


@pytest.mark.parametrize("cost", ["0.0000010000", "123456789.123456789", "0", "1E-20"])
def test_money_is_text_with_every_digit(cost):
    line = encoded(an_entry(cost=Decimal(cost)))

    assert f'"cost":"{cost}"'.encode() in line
    assert entry_in(line) == an_entry(cost=Decimal(cost))


def test_a_tag_cannot_pass_for_an_entry():
    entry = an_entry(tags=('\n{"at":1.0}', '{"at":'))

    assert encoded(entry).count(b"\n") == 1
    assert entry_in(encoded(entry)) == entry


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"at":"now"}', id="no-number"),
        pytest.param(b'{"at":1e300}', id="after-all-time"),
        pytest.param(b'{"at":-1}', id="before-it"),
        pytest.param(b'{"at":1,"cost":"NaN"}', id="nan"),
        pytest.param(b'{"at":1,"cost":"Infinity"}', id="infinite"),
        pytest.param(b'{"at":1,"cost":"1e300"}', id="more-than-there-is"),
        pytest.param(b'{"at":1,"savings":"1e-300"}', id="less-than-adds-up"),
        pytest.param(b"[1]", id="no-object"),
        pytest.param(b"\xff\x00", id="no-text"),
        pytest.param(b'{"at":' + b"[" * 100_000, id="deep"),
        pytest.param(b'{"at":1,"new":' + b"[" * 100_000, id="deep-in-a-field-of-a-later-version"),
    ],
)
def test_what_is_no_entry_is_none(line):
    assert entry_in(line) is None


def test_a_field_of_a_later_version_is_passed_over():
    assert entry_in(b'{"at":1,"colour":"red"}').at == 1
