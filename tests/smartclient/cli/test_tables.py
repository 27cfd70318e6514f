"""Tables that people, Markdown and spreadsheets read."""

from __future__ import annotations

from decimal import Decimal

import pytest

from smartclient.cli.tables import as_csv, dollars, markdown, number, plain, shown, table


def test_names_are_left_and_numbers_right():
    assert table(("name", "tokens"), [("a", "1"), ("日本", "1,000")]) == (
        "name  tokens\na          1\n日本   1,000"
    )


def test_a_remark_begins_at_the_left():
    assert table(("n", "why"), [("1", "x"), ("22", "")], last=True) == "n   why\n1   x\n22"


def test_a_table_of_markdown_says_its_sides():
    assert markdown(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "unknown"),
        ("0", "$0"),
        ("0.0000001", "<$0.000001"),
        ("-0.0000001", ">-$0.000001"),
        ("0.00525", "$0.005250"),
        ("12.34567", "$12.3457"),
        ("-12.5", "-$12.5000"),
        ("1234567.891", "$1,234,567.89"),
    ],
)
def test_money_has_as_many_digits_as_tell_something(amount, text):
    assert dollars(None if amount is None else Decimal(amount)) == text


def test_programs_get_every_digit():
    assert (plain(Decimal("1E-9")), plain(None)) == ("0.000000001", None)


def test_numbers_have_a_noun():
    assert (number(1, "call"), number(2000, "call")) == ("1 call", "2,000 calls")


def test_a_terminal_obeys_nothing_from_a_file():
    assert shown("a\x1b[2Jb\n") == "a\ufffd[2Jb\ufffd"
    assert len(shown("x" * 1000)) == 60


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param("=1+1", "'=1+1", id="equals"),
        pytest.param("@x", "'@x", id="at"),
        pytest.param("+x", "'+x", id="plus"),
        pytest.param("-x", "'-x", id="minus"),
        pytest.param("\t=x", "\ufffd=x", id="behind-a-tab"),
        pytest.param("a\r=x", "a\ufffd=x", id="on-a-line-of-its-own"),
    ],
)
def test_a_spreadsheet_runs_nothing_from_a_file(cell, expected):
    assert as_csv(("a", "b"), [(cell, "-1.5")]) == f"a,b\n{expected},-1.5"
