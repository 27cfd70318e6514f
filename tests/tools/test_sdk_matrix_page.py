"""What the page of SDK versions tells of runs: complete, without a failure, and of these tests."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tools.sdk_matrix import PAIRS, ROOT, TESTS, Outcome
from tools.sdk_matrix_page import PAGE, Row, rows, told_tests, with_results

TOLD = rows(PAGE.read_text())
EMPTY = (
    "Before.\n<!-- written by python -m tools.sdk_matrix --write -->\nold\n"
    "<!-- the end of what is written -->\nAfter.\n"
)


def test_the_page_tells_of_every_pair_and_of_no_failure():
    assert [row.pair for row in TOLD] == [str(pair) for pair in PAIRS]
    assert [row.failed for row in TOLD] == [0] * len(PAIRS)
    assert all(row.passed > 200 for row in TOLD)


def test_the_page_tells_versions_that_belong_to_their_pair():
    for row in TOLD:
        wanted = row.pair.replace("latest", "").split("+")
        assert row.openai.startswith(wanted[0])
        assert row.anthropic.startswith(wanted[1])


def test_the_page_tells_of_the_tests_that_there_are():
    """Otherwise: `python -m tools.sdk_matrix --write`, some ten minutes."""
    sources = "".join(path.read_text() for path in sorted((ROOT / TESTS).glob("test_*.py")))

    assert told_tests(PAGE.read_text()) == set(re.findall(r"def test_(\w+)", sources))


def test_each_table_has_as_many_cells_in_every_line():
    _, _, results = PAGE.read_text().partition("## Results")
    for block in re.findall(r"(?:^\|.*\|\n)+", results, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_results_take_the_place_of_older_ones():
    cases = {"it_runs": Counter(passed=3), "it_skips": Counter(skipped=1)}
    outcome = Outcome(PAIRS[0], "openai 1.109.1, anthropic 0.125.0, httpx 0.28.1", cases)

    page = with_results(EMPTY, [outcome], today="2026-01-02")

    assert (page[:8], page[-7:], "old" in page) == ("Before.\n", "After.\n", False)
    assert "Run on 2026-01-02 with Python 3." in page
    assert rows(page) == [Row("1.109+0.125", "1.109.1", "0.125.0", "0.28.1", "-", 3, 0, 1)]
    assert told_tests(page) == {"it_runs", "it_skips"}
    assert with_results(page, [outcome], today="2026-01-02") == page


def test_a_page_without_a_place_for_results_is_refused():
    with pytest.raises(ValueError, match="the page must hold the lines <!-- written by"):
        with_results("Before.\n", [], today="2026-01-02")
