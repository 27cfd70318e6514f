"""`smartclient cost --ledger`: what a ledger adds up to."""

from __future__ import annotations

import csv
from decimal import Decimal

import pytest

from smartclient.ledger.lines import encoded
from tests.smartclient.ledger.entries import an_entry


@pytest.fixture
def a_ledger(a_file):
    def write(*entries, rest=b""):
        return a_file(b"".join(map(encoded, entries)) + rest, "calls.jsonl")

    return write


CALLS = (
    an_entry(cost=Decimal("0.1"), tags=("a",)),
    an_entry(cost=Decimal("0.0000000001"), tags=("a", "b"), model="gpt-5.1", provider="openai"),
    an_entry(cost=None, missing=("prices",), model="ours"),
)


def test_it_is_added_up_by_each_column(told, a_ledger):
    found = told("cost", "--ledger", a_ledger(*CALLS))["totals"]

    assert [(one["by"], one["key"], one["calls"]) for one in found] == [
        ("all", "all", 3),
        ("tag", "a", 2), ("tag", "b", 1), ("tag", None, 1),
        ("model", "claude-opus-5", 1), ("model", "gpt-5.1", 1), ("model", "ours", 1),
        ("day", "2026-11-29", 3),
        ("provider", "anthropic", 2), ("provider", "openai", 1),
    ]  # fmt: skip
    assert (found[0]["dollars"], found[0]["dollars_at_least"]) == (None, "0.1000000001")
    assert (found[2]["dollars"], found[2]["dollars_at_least"]) == ("0.0000000001",) * 2
    assert (found[0]["unpriced"], found[0]["cache_write"]) == (1, 6)


def test_one_column_can_be_chosen(run, a_ledger):
    _, out, _ = run("cost", "--ledger", a_ledger(*CALLS), "--by", "tag", "--csv")

    rows = list(csv.DictReader(out.splitlines()))
    assert [(row["by"], row["key"]) for row in rows] == [
        ("all", "all"), ("tag", "a"), ("tag", "b"), ("tag", "")
    ]  # fmt: skip


def test_a_sum_that_may_be_more_says_so(run, a_ledger):
    path = a_ledger(*CALLS, an_entry(partial=True), rest=b'{"at":17')

    _, out, _ = run("cost", "--ledger", path, "--by", "model")

    lines = out.splitlines()
    assert ">=$0.1010" in lines[1]
    assert next(line for line in lines if line.startswith("ours")).split()[-2:] == ["unknown", "1"]
    assert "unpriced: 1 call that may have cost more" in out
    assert "cut: 1 call, of at least the tokens that are counted." in out
    assert "passed over: 1 line that cannot be read." in out


def test_what_is_not_known_at_all_is_no_amount(run, told, a_ledger):
    path = a_ledger(*CALLS)

    ours = next(one for one in told("cost", "--ledger", path)["totals"] if one["key"] == "ours")
    _, out, _ = run("cost", "--ledger", path, "--by", "model", "--csv")

    assert (ours["dollars"], ours["dollars_at_least"], ours["unpriced"]) == (None, None, 1)
    [row] = [row for row in csv.DictReader(out.splitlines()) if row["key"] == "ours"]
    assert (row["dollars"], row["dollars_at_least"]) == ("", "")


def test_all_columns_are_shown_where_none_is_chosen(run, a_ledger):
    _, out, _ = run("cost", "--ledger", a_ledger(*CALLS))

    heads = [line.split()[0] for line in out.splitlines() if " calls " in line]
    assert heads[:5] == ["all", "tag", "model", "day", "provider"]
    assert "A call counts under each of its tags" in out


def test_an_exported_spreadsheet_is_read_too(told, a_ledger, tmp_path):
    from smartclient.ledger import Ledger

    path = a_ledger(*CALLS)
    Ledger.read(path).export(tmp_path / "calls.csv", "csv")

    assert told("cost", "--ledger", tmp_path / "calls.csv") == told("cost", "--ledger", path)


def test_what_is_no_ledger_is_a_sentence(run, a_file):
    status, _, err = run("cost", "--ledger", a_file("hello"))

    assert status == 2
    assert "is no ledger: no line of it is an entry" in err
