from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from server_reference.models.checkpoint import Checkpoint
from server_reference.models.checkpoint_models import config_of, weights_of
from server_reference.models.transformer import Transformer
from tests.server_reference.models.dense import all_logits
from tests.server_reference.models.hub_models import IDS, MODELS, peer, save, their_logits


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_transformers(tmp_path: Path, name: str) -> None:
    model = peer(name)
    checkpoint = Checkpoint(save(model, tmp_path))
    config = config_of(checkpoint)

    ours = all_logits(Transformer(config, weights_of(checkpoint, config, torch.float32)), IDS)

    torch.testing.assert_close(ours, their_logits(model), atol=1e-4, rtol=0)


OFF: dict[str, dict[str, Any]] = {
    "llama-linear": {"rope_scaling": None},
    "llama-llama3": {"rope_scaling": None},
    "llama-yarn": {"rope_scaling": None},
    "mistral": {"windows": ()},
    "qwen2": {"qkv_bias": False},
    "qwen2-windows": {"windows": ()},
    "qwen3": {"qk_norm": False},
    "gemma2": {"post_norms": False},
    "gemma2-scale": {"attention_scale": None},
    "gemma3": {"local_rope_theta": None},
}
"""What makes each of these models itself, switched off."""

GEMMA_OFF: dict[str, Any] = {
    "windows": (),
    "norm_offset": 0.0,
    "embedding_scale": 1.0,
    "activation": "silu",
    "attention_soft_cap": None,
    "logit_soft_cap": None,
}


@pytest.mark.parametrize(
    ("name", "off"),
    [
        *[pytest.param(name, off, id=name) for name, off in OFF.items()],
        *[pytest.param("gemma2", {key: GEMMA_OFF[key]}, id=f"gemma2-{key}") for key in GEMMA_OFF],
        pytest.param("gemma3", {"rope_scaling": None}, id="gemma3-rope_scaling"),
        pytest.param("gemma3", {"qk_norm": False}, id="gemma3-qk_norm"),
    ],
)
def test_logits_differ_once_a_familys_own_feature_is_off(
    tmp_path: Path, name: str, off: dict[str, Any]
) -> None:
    model = peer(name)
    checkpoint = Checkpoint(save(model, tmp_path))
    config = config_of(checkpoint)
    weights = weights_of(checkpoint, config, torch.float32)

    ours = all_logits(Transformer(replace(config, **off), weights), IDS)

    assert (ours - their_logits(model)).abs().max() > 0.05


@pytest.mark.parametrize("change", [{"attention_factor": 1.0}, {"truncate": True}])
def test_yarns_details_count(tmp_path: Path, change: dict[str, Any]) -> None:
    model = peer("llama-yarn-scales")
    checkpoint = Checkpoint(save(model, tmp_path))
    config = config_of(checkpoint)
    assert config.rope_scaling is not None
    changed = replace(config, rope_scaling=replace(config.rope_scaling, **change))

    weights = weights_of(checkpoint, config, torch.float32)
    ours = all_logits(Transformer(changed, weights), IDS)

    assert (ours - their_logits(model)).abs().max() > 0.01
