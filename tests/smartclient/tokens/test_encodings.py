"""Which vocabulary a model counts with."""

from __future__ import annotations

import pytest

from smartclient.tokens.encodings import bare_name, claude_version, has_new_tokenizer, tokenizing


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        pytest.param("gpt-4o", "o200k_base", id="4o"),
        pytest.param("gpt-4o-mini-2024-07-18", "o200k_base", id="dated"),
        pytest.param("gpt-4.1-nano", "o200k_base", id="4.1"),
        pytest.param("ft:gpt-4.1-mini-2025-04-14:org::abc", "o200k_base", id="tuned-4.1"),
        pytest.param("ft:o4-mini-2025-04-16:org::abc", "o200k_base", id="tuned-o4"),
        pytest.param("openai/gpt-5.1", "o200k_base", id="provider-prefix"),
        pytest.param("openrouter/openai/gpt-4o:free", "o200k_base", id="two-prefixes-and-suffix"),
        pytest.param("openai/ft:gpt-4.1:org::abc", "o200k_base", id="tuned-with-a-prefix"),
        pytest.param("GPT-5.6-sol", "o200k_base", id="upper-case"),
        pytest.param("gpt-4.5-preview", "o200k_base", id="4.5"),
        pytest.param("o3", "o200k_base", id="o3"),
        pytest.param("codex-mini-latest", "o200k_base", id="codex"),
        pytest.param("gpt-realtime", "o200k_base", id="realtime"),
        pytest.param("gpt-oss-120b", "o200k_harmony", id="oss"),
        pytest.param("gpt-4", "cl100k_base", id="4"),
        pytest.param("ft:gpt-4-0613:org::abc", "cl100k_base", id="tuned-4"),
        pytest.param("gpt-4-turbo", "cl100k_base", id="4-turbo"),
        pytest.param("azure/gpt-35-turbo", "cl100k_base", id="azure"),
        pytest.param("text-embedding-3-small", "cl100k_base", id="embedding"),
    ],
)
def test_a_model_of_openai_has_its_own_vocabulary(model, encoding):
    found = tokenizing(model)

    assert (found.encoding, found.is_own) == (encoding, True)


@pytest.mark.parametrize("model", ["gpt-6", "gpt-6.2-pro", "claude-opus-5", "my-deployment", ""])
def test_any_other_model_is_estimated_with_a_band(model):
    found = tokenizing(model)

    assert not found.is_own
    assert found.error >= 0.1


@pytest.mark.parametrize(
    ("model", "is_new"),
    [
        pytest.param("claude-3-5-sonnet-20241022", False, id="old-order"),
        pytest.param("claude-opus-4-20250514", False, id="a-date-is-no-version"),
        pytest.param("claude-opus-4-6", False, id="4.6"),
        pytest.param("claude-haiku-4-5-20251001", False, id="haiku-4.5"),
        pytest.param("claude-opus-4-7", True, id="4.7"),
        pytest.param("us.anthropic.claude-sonnet-5-20260901-v1:0", True, id="bedrock"),
        pytest.param(
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1",
            False,
            id="arn",
        ),
        pytest.param("claude-sonnet-4-6@20260101", False, id="vertex"),
        pytest.param("claude-mythos-preview", True, id="no-version"),
        pytest.param("anthropic/claude-opus-4.6", False, id="dot"),
    ],
)
def test_newer_claudes_make_more_tokens(model, is_new):
    assert has_new_tokenizer(bare_name(model)) is is_new
    assert (tokenizing(model).prose > 1.5) is is_new


@pytest.mark.parametrize(
    ("name", "version"),
    [
        pytest.param("claude-3-5-sonnet-20241022", ("sonnet", 3.5), id="version-first"),
        pytest.param("claude-sonnet-5", ("sonnet", 5.0), id="family-first"),
        pytest.param("claude-next", None, id="none"),
    ],
)
def test_a_claude_has_a_family_and_a_version(name, version):
    assert claude_version(name) == version
