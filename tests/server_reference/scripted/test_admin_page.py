"""The page of the admin API names what there is, and its rules can be played."""

from __future__ import annotations

import json
import re

import pytest

from server_reference import scripted
from server_reference.scripted.admin_actions import Actions
from server_reference.scripted.rules import rule_from_json
from tests.layers import ROOT

PAGE = (ROOT / "docs/reference/admin-api.md").read_text()
ENDPOINTS, RULES = PAGE.split("## Rules in JSON")
FIRST_COLUMN = re.compile(r"^\| `(.+?)` \|", re.MULTILINE)
THENS = [then for then in FIRST_COLUMN.findall(RULES) if then != "then"]


def test_the_page_lists_the_endpoints():
    with scripted() as server:
        known = Actions(server).index({}, None)["endpoints"]

    assert FIRST_COLUMN.findall(ENDPOINTS) == known


def test_the_page_has_rules():
    assert len(THENS) == 8


@pytest.mark.parametrize("then", THENS)
def test_a_then_of_the_page_can_be_played(then):
    assert rule_from_json({"then": json.loads(then)}).items
