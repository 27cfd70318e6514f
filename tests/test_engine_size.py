"""The engine can be read in one sitting: how long it is, and in what order to read it."""

from __future__ import annotations

import re

import pytest

from tools.reading_order import BENEATH, ORDER, PACKAGES, PAGE, counts, render

MOST = 4_000
ROW = re.compile(
    r"^\| (\d+) \| `(\w+/\w+\.py)` \| (\d+) \| (.+) \|$",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def rows():
    """Number, file, lines and job of each row of the table."""
    return ROW.findall(PAGE.read_text())


def test_the_three_packages_stay_within_their_limit():
    lines = counts()

    total = sum(lines.values())
    longest = sorted(lines, key=lines.__getitem__)[-5:]
    assert total <= MOST, f"{total:,} lines of {MOST:,}; the longest files are {longest}"


def test_every_file_stands_once_in_the_reading_order(rows):
    every = counts((*PACKAGES, *BENEATH))
    files = [path for path in every if not path.endswith("__init__.py")]

    assert sorted(row[1] for row in rows) == sorted(files), "run python -m tools.reading_order"


def test_a_new_file_was_given_its_place(rows):
    assert [row[1] for row in rows if row[1].removesuffix(".py") not in ORDER] == []


def test_the_table_says_what_the_files_say(rows):
    """Their jobs to the word, their lines within a tenth: not every commit must write it anew."""
    anew = {row[1]: row for row in ROW.findall(render(PAGE.read_text()))}

    wrong = [
        row
        for row in rows
        if (row[0], row[3]) != (anew[row[1]][0], anew[row[1]][3])
        or abs(int(row[2]) - int(anew[row[1]][2])) > max(5, int(anew[row[1]][2]) / 10)
    ]
    assert wrong == [], "run python -m tools.reading_order"
