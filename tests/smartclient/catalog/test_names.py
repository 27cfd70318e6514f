"""Every way that a name is written, and none that becomes another model's."""

from __future__ import annotations

import pytest

from smartclient.catalog import builtin
from smartclient.catalog.names import Reading, readings

CATALOG = builtin()

ARN = "arn:aws:bedrock:us-east-1:123456789012:inference-profile"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-opus-4-6@default", "claude-opus-4-6"),
        ("claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-4.5-sonnet", "claude-sonnet-4-5"),
        ("claude-4-5-haiku-20251001", "claude-haiku-4-5"),
        ("claude-5-opus", "claude-opus-5"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("Claude-Opus-5 ", "claude-opus-5"),
        ("anthropic/claude-opus-5", "claude-opus-5"),
        ("anthropic:claude-opus-5", "claude-opus-5"),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("vertex_ai/claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        (
            "projects/p/locations/global/publishers/anthropic/models/claude-opus-5@20260101",
            "claude-opus-5",
        ),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("bedrock/converse/eu.anthropic.claude-opus-5", "claude-opus-5"),
        ("bedrock:us.anthropic.claude-opus-5", "claude-opus-5"),
        (f"{ARN}/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        (
            "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-opus-4-6-v1",
            "claude-opus-4-6",
        ),
        ("us.openai.gpt-5.4", "gpt-5.4"),
        ("gpt-4.1-2025-04-14", "gpt-4.1"),
        ("gpt-5.2-20251211", "gpt-5.2"),
        ("gpt-5.6", "gpt-5.6-sol"),
        ("gpt-5-4-mini-2026-03-17", "gpt-5.4-mini"),
        ("openai/gpt-4.1", "gpt-4.1"),
        ("openai/responses/gpt-5-pro", "gpt-5-pro"),
        ("azure/gpt-4.1", "gpt-4.1"),
        ("azure/us/gpt-4.1-2025-04-14", "gpt-4.1"),
        ("ft:gpt-4.1-mini-2025-04-14:org:name:id", "gpt-4.1-mini"),
        ("ft:gpt-4.1-mini-2025-04-14:org::id:ckpt-step-9", "gpt-4.1-mini"),
        ("openai/ft:gpt-4o-2024-08-06:org::id", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
    ],
)
def test_a_name_is_found_through_what_stands_around_it(asked, name):
    assert CATALOG.model(asked).name == name


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("claude-opus-5-6", id="a-later-model"),
        pytest.param("claude-opus-4-20250514", id="an-earlier-one-with-a-date"),
        pytest.param("claude-opus-4", id="only-the-beginning"),
        pytest.param("claude-3-5-sonnet-20241022", id="an-older-family"),
        pytest.param("gpt-5.7", id="the-next-number"),
        pytest.param("gpt-5.6-sol-mini", id="something-smaller"),
        pytest.param("gpt-4-1106-preview", id="a-date-that-looks-like-a-number"),
        pytest.param("gpt-4", id="a-prefix-of-gpt-4.1"),
        pytest.param("gpt-4.1-2025-13-14", id="a-month-that-is-none"),
        pytest.param("ft:gpt-4-0613:org::id", id="a-tune-of-an-unknown-model"),
        pytest.param("ft:", id="a-tune-of-nothing"),
        pytest.param("azure/my-deployment", id="a-deployment-of-any-model"),
        pytest.param("together/gpt-4.1", id="a-gateway-we-do-not-know"),
        pytest.param("openrouter/anthropic/claude-opus-5:free", id="another-price"),
        pytest.param(f"{ARN.replace('inference', 'application-inference')}/x1", id="opaque-arn"),
        pytest.param("openai/", id="only-a-gateway"),
        pytest.param("", id="nothing"),
        pytest.param("a/" * 2000, id="very-long"),
    ],
)
def test_a_name_never_becomes_that_of_another_model(asked):
    assert CATALOG.model(asked) is None


@pytest.mark.parametrize(
    ("asked", "region"),
    [
        ("us.anthropic.claude-opus-5", "bedrock:us"),
        ("us-gov.anthropic.claude-opus-5", "bedrock:us-gov"),
        ("global.anthropic.claude-opus-5", None),
        ("anthropic.claude-opus-5", None),
        ("bedrock/us-gov-west-1/anthropic.claude-opus-5", "bedrock:us-gov"),
        ("bedrock/eu-west-1/anthropic.claude-opus-5", "bedrock:eu-west-1"),
        ("arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/anthropic.x", "bedrock:us-gov"),
        ("arn:aws:bedrock:us-east-1::foundation-model/anthropic.x", None),
        ("azure/eu/gpt-4.1", "azure:eu"),
        ("azure/gpt-4.1", None),
    ],
)
def test_a_region_in_a_name_is_told(asked, region):
    assert list(readings(asked))[-1].region == region


def test_the_whole_name_is_tried_first():
    first, *others = readings("ft:gpt-4.1-2025-04-14:org::id")

    assert first == Reading("ft:gpt-4.1-2025-04-14:org::id")
    assert all(reading.is_fine_tuned for reading in others)
    assert others[-1].name == "gpt-4.1"


def test_each_name_of_the_catalog_means_its_own_model():
    for record in CATALOG:
        for name in (record.name, *record.aliases):
            assert CATALOG.model(name).name == record.name
