"""Every reported fault of other engines has a test of ours, or a reason why not."""

from __future__ import annotations

import ast
import re

import pytest

from tests.layers import ROOT

PAGE = ROOT / "docs" / "explanation" / "engine-faults.md"
ROWS = 28
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
REPORT = re.compile(r"^(?:[\w.-]+(?:/[\w.-]+)?#\d+)(?:, (?:[\w.-]+(?:/[\w.-]+)?)?#\d+)*$")


def rows():
    """Number, reports, fault and answer of each row."""
    lines = re.findall(r"^\| \d+ \|.*\|$", PAGE.read_text(), re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def functions_of(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_all_of_them_are_there():
    assert [int(row[0]) for row in rows()] == list(range(1, ROWS + 1))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_report_is_named_by_its_repository_and_number(row):
    assert REPORT.match(row[1])


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_has_tests_or_a_reason(row):
    assert TEST.search(row[3]) or row[3].startswith("Not here: ")


@pytest.mark.parametrize(
    ("path", "name"), sorted(set(TEST.findall(PAGE.read_text()))), ids=lambda text: text
)
def test_the_named_tests_exist(path, name):
    assert name in functions_of(path)
