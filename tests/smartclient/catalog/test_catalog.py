"""What `smartclient.catalog` is from outside: there when asked for, not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import smartclient
from smartclient import catalog
from smartclient.catalog import cost
from smartclient.wire import Usage
from tests.layers import ROOT


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        pytest.param("pass", [], id="nothing-at-import"),
        pytest.param(
            "smartclient.catalog.model('gpt-4.1')", ["smartclient.catalog"], id="on-first-use"
        ),
    ],
)
def test_it_is_loaded_when_it_is_first_asked_for(code, loaded):
    names = ["smartclient.catalog", "smartclient.catalog.genai", "genai_prices", "logging"]
    show = f"import sys, smartclient; {code}; print(*[n for n in {names} if n in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", show], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == loaded


def test_the_short_ways_are_those_of_the_catalog_we_ship(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text('{"models": [{"name": "m", "context_window": 7}]}')

    assert catalog.model("gpt-4.1") is catalog.builtin().model("gpt-4.1")
    assert catalog.override({"m": {"context_window": 7}}).model("m").context_window == 7
    assert catalog.read(path).model("m").context_window == 7


def test_a_name_that_is_not_there_is_still_an_error():
    with pytest.raises(AttributeError, match="has no attribute 'catalogue'"):
        _ = smartclient.catalogue


def test_a_name_or_a_mapping_is_refused_with_what_to_give():
    with pytest.raises(TypeError, match=r"usage must be .*, not dict; a report has"):
        cost({"input_tokens": 5}, catalog.model("gpt-4.1"))
    with pytest.raises(TypeError, match=r"facts must be .*, not str; smartclient.catalog.model"):
        cost(Usage(uncached=5), "gpt-4.1")
