from __future__ import annotations

import re

import pytest

from server_reference.scripted.faults import PRESETS
from server_reference.scripted.faults.client_side import CLIENT_SIDE
from server_reference.scripted.faults.presets import KINDS

every_row = pytest.mark.parametrize("row", CLIENT_SIDE, ids=lambda row: row.name)


def test_names_are_given_once():
    names = [*PRESETS, *(row.name for row in CLIENT_SIDE)]

    assert len(names) == len(set(names))


@every_row
def test_a_row_is_whole(row):
    assert row.kind in KINDS
    assert row.sources
    assert all(text.endswith(".") for text in (row.condition, row.right, row.why))


@every_row
def test_a_preset_that_a_row_names_exists(row):
    """`tls=True` and `assert_attempts` are no presets."""
    named = set(re.findall(r"`(\w+)`", row.why)) - {"assert_attempts"}

    assert named <= set(PRESETS)
