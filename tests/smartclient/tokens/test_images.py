"""Tokens of images, by the examples of the providers' pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.tokens.encodings import bare_name
from smartclient.tokens.images import image_rule, image_tokens
from tests.smartclient.tokens.images import base64, png

MODELS = ["gpt-4o", "gpt-4.1-mini", "gpt-5.4", "o3", "claude-opus-4-6", "claude-opus-5", "other"]


def counted(model, width, height, detail="high"):
    data = f"data:image/png;base64,{base64(png(width, height))}"
    return image_tokens(image_rule(bare_name(model)), data, detail=detail)[0]


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        # OpenAI, "Images and vision", the examples under "Calculating costs".
        pytest.param("gpt-4o", 1024, 1024, 765, id="four-tiles"),
        pytest.param("gpt-4o", 2048, 4096, 1105, id="six-tiles"),
        pytest.param("gpt-4o", 10, 10, 255, id="one-tile"),
        pytest.param("gpt-4o-mini", 1024, 1024, 25501, id="4o-mini"),
        pytest.param("o1", 1024, 1024, 675, id="o1"),
        pytest.param("gpt-5.1", 1024, 1024, 630, id="5.1"),
        pytest.param("gpt-4.1-mini", 1024, 1024, 1024 * 1.62, id="patches"),
        pytest.param("o4-mini", 1800, 2400, 1452 * 1.72, id="patches-scaled-down"),
        # Anthropic, "Vision": squares of 28 pixels, up to a limit.
        pytest.param("claude-opus-4-6", 200, 200, 64, id="claude-small"),
        pytest.param("claude-opus-4-6", 1000, 1000, 1296, id="claude"),
        pytest.param("claude-opus-5", 1000, 1000, 1296, id="claude-new"),
    ],
)
def test_an_image_is_as_many_as_the_page_says(model, width, height, tokens):
    assert counted(model, width, height) == pytest.approx((tokens, tokens, tokens))


@pytest.mark.parametrize(
    ("model", "most"), [("claude-opus-4-6", 1568), ("claude-opus-5", 4784), ("o4-mini", 2642)]
)
def test_a_huge_image_is_scaled_down(model, most):
    low, mid, high = counted(model, 9000, 7000)

    assert 0.9 * most <= mid <= most
    assert low == mid == high


@pytest.mark.parametrize("model", MODELS)
@given(width=st.integers(1, 30_000), height=st.integers(1, 30_000))
def test_any_size_has_quantiles_in_order(model, width, height):
    low, mid, high = counted(model, width, height)

    assert 0 < low <= mid <= high


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("source", ["https://a.example/b.png", None, "not base64"])
def test_an_image_that_cannot_be_seen_is_a_band(model, source):
    (low, mid, high), is_seen = image_tokens(image_rule(model), source)

    assert not is_seen
    assert low < mid < high


def test_low_detail_is_the_base_whatever_the_size():
    assert counted("gpt-4o", 5000, 5000, detail="low") == (85, 85, 85)


def test_of_its_own_accord_the_provider_may_choose_low_detail():
    assert counted("gpt-4o", 1024, 1024, detail="auto") == (85, 765, 765)


def test_a_rule_that_is_not_told_has_a_band():
    low, mid, high = counted("gpt-5.6", 1024, 1024)

    assert low < mid < high
    assert mid == pytest.approx(1228.8)
