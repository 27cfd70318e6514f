"""Texts estimated without a vocabulary."""

from __future__ import annotations

import json
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.tokens.estimate import ERROR, FEATURES, WEIGHTS, estimate, features, mixture
from tests.layers import ROOT

SAME_TEXT = json.loads((ROOT / "src/smartclient/tokens/same_text.json").read_text())
# Not among what the weights were fitted on.
OTHERS = {
    "licence": (ROOT / "LICENSE").read_text()[:3000],
    "readme": (ROOT / "README.md").read_text()[:3000],
    "tests": (ROOT / "tests/test_layers.py").read_text()[:3000],
    "configuration": (ROOT / "pyproject.toml").read_text()[:3000],
}


@pytest.mark.parametrize("name", [*SAME_TEXT, *OTHERS])
def test_an_ordinary_text_lies_within_the_stated_error(truth, name):
    text = (SAME_TEXT | OTHERS)[name]

    assert estimate(text) == pytest.approx(truth["o200k_base"](text), rel=ERROR)


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=[])))
def test_any_text_has_an_estimate_that_a_byte_each_bounds(text):
    found = estimate(text)

    assert isfinite(found)
    assert (1.0 if text else 0.0) <= found <= 3 * max(1, len(text.encode("utf-8", "replace"))) + 1


def test_ascii_is_counted_by_the_short_way_to_the_same():
    text = SAME_TEXT["Python"]

    short, long = features(text), features(text + "é")

    assert {name: long[name] - short[name] for name in FEATURES if long[name] != short[name]} == {
        "latin": 1,
        "word": 1,
    }


def test_every_feature_has_a_weight():
    assert tuple(WEIGHTS) == FEATURES
    assert min(WEIGHTS.values()) >= 0


@pytest.mark.parametrize(
    ("name", "code", "foreign"),
    [
        pytest.param("English", 0.0, 0.0, id="prose"),
        pytest.param("JSON", 1.0, 0.0, id="json"),
        pytest.param("Russian", 0.0, 0.9, id="other-script"),
    ],
)
def test_a_text_is_told_apart_by_what_it_is_made_of(name, code, foreign):
    _, is_code, is_foreign = mixture(SAME_TEXT[name])

    assert is_code == pytest.approx(code, abs=0.15)
    assert is_foreign == pytest.approx(foreign, abs=0.15)
