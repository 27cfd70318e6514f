"""What to do about a difference, for every kind in every part of a prompt."""

from __future__ import annotations

from typing import get_args

import pytest

from smartclient.prompt_cache.advice import advice
from smartclient.prompt_cache.blocks import Tier
from smartclient.prompt_cache.difference import DriftKind
from smartclient.prompt_cache.patterns import PATTERNS


@pytest.mark.parametrize("tier", get_args(Tier))
@pytest.mark.parametrize("kind", get_args(DriftKind))
def test_every_difference_has_an_advice_of_one_clause(kind, tier):
    told = advice(kind, tier, parameter="thinking")

    assert told[0].islower()
    assert not told.endswith(".")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_varies_is_moved_behind_what_does_not(pattern):
    told = advice("edit", "system", pattern=pattern)

    assert told.endswith("at the end of the last user message")


@pytest.mark.parametrize(
    ("kind", "tier", "more", "told"),
    [
        ("reorder", "tools", {}, "keep the order of tools fixed"),
        ("key_order", "tools", {"is_inside": True}, "freeze the key order of the schema"),
        ("added", "tools", {"is_inside": True}, "define each tool once, and send its definition"),
        ("edit", "system", {}, "append a system message instead of editing the system prompt"),
        ("parameter", "tools", {"parameter": "model"}, "stay on one model"),
        ("parameter", "messages", {"parameter": "thinking"}, "send the same thinking in every"),
        ("reorder", "messages", {"is_inside": True}, "send earlier messages as they were"),
    ],
)
def test_the_advice_fits_the_difference(kind, tier, more, told):
    assert advice(kind, tier, **more).startswith(told)
