"""The page on providers names everything that they do."""

from __future__ import annotations

import pytest

from server_reference.scripted.providers import REFUSALS, RETRY_AFTER_FORMS
from server_reference.scripted.providers.cache_rules import AS_OF, IMAGE_TOKENS
from tests.layers import ROOT

PAGE = (ROOT / "docs/reference/provider-behaviour.md").read_text()


@pytest.mark.parametrize("name", [*REFUSALS, *RETRY_AFTER_FORMS])
def test_the_page_names_every_refusal_and_every_form(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("fact", [AS_OF, f"{IMAGE_TOKENS:,}"])
def test_the_page_tells_the_facts_that_are_used(fact):
    assert fact in PAGE


@pytest.mark.parametrize("name", REFUSALS)
def test_the_page_tells_the_status_of_every_refusal(name):
    row = next(line for line in PAGE.splitlines() if line.startswith("| `") and f"`{name}`" in line)

    kind = REFUSALS[name]
    assert f"| {kind.status} | {'no' if kind.is_money else 'yes'} |" in row
