"""Ledgers as files: whole ones, and broken ones."""

from __future__ import annotations

import os
from threading import Thread

import pytest

from smartclient.ledger.files import entries, write
from smartclient.ledger.lines import encoded
from smartclient.ledger.sheet import COLUMNS
from tests.smartclient.ledger.entries import an_entry

HEAD = ",".join(COLUMNS)


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path):
    (tmp_path / "calls").write_text("old")

    with pytest.raises(AttributeError):
        write(tmp_path / "calls", [None], "csv")

    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("calls", "old")]


@pytest.mark.parametrize("length", [10, 1 << 20, (2 << 20) + 5])
def test_a_line_without_an_end_costs_only_itself(tmp_path, length):
    line = encoded(an_entry())
    (tmp_path / "calls").write_bytes(line + b"x" * length + b"\n" + line)

    assert list(entries(tmp_path / "calls")) == [an_entry(), None, an_entry()]


def test_blank_lines_are_nothing(tmp_path):
    (tmp_path / "calls").write_bytes(b"\n" + encoded(an_entry()) + b"  \n\n")

    assert list(entries(tmp_path / "calls")) == [an_entry()]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("now", id="no-number"),
        pytest.param("1795953600.0,2026-11-29,[", id="no-list"),
        pytest.param("1795953600.0" + "," * 17 + "much", id="no-money"),
        pytest.param("-5" + "," * 20, id="no-time"),
    ],
)
def test_a_row_that_is_no_entry_is_none(tmp_path, row):
    whole = row + "," * (HEAD.count(",") - row.count(","))
    (tmp_path / "calls").write_text(f"{HEAD}\n{whole}\n")

    assert list(entries(tmp_path / "calls")) == [None]


def test_a_row_that_was_cut_is_none(tmp_path):
    write(tmp_path / "calls", [an_entry()], "csv")
    whole = (tmp_path / "calls").read_bytes().rstrip()
    (tmp_path / "calls").write_bytes(whole[: whole.rindex(b",")])

    assert list(entries(tmp_path / "calls")) == [None]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("name", ["a\rb", "a\nb", "\ra", "a\r\nb", 'a"b,c', "=a", "'a", "a\tb"])
def test_a_name_of_any_characters_is_read_again(tmp_path, name, form):
    entry = an_entry(model=name, tags=(name,))
    write(tmp_path / "calls", [entry, entry], form)

    assert list(entries(tmp_path / "calls")) == [entry, entry]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_ledger_is_read_from_a_pipe(tmp_path, form):
    write(tmp_path / "calls", [an_entry()], form)
    os.mkfifo(tmp_path / "pipe")
    data = (tmp_path / "calls").read_bytes()
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()

    found = list(entries(tmp_path / "pipe"))

    writer.join()
    assert found == [an_entry()]


def test_a_cell_without_an_end_is_refused(tmp_path):
    (tmp_path / "calls").write_text(f'{HEAD}\n"{"x" * 200_000}\n')

    with pytest.raises(ValueError, match="is a broken spreadsheet: field larger than"):
        list(entries(tmp_path / "calls"))
