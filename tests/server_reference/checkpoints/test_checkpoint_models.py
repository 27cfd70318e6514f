from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from server_reference.checkpoints.checkpoint import Checkpoint
from server_reference.checkpoints.checkpoint_models import config_of, weights_of
from server_reference.checkpoints.errors import ModelFileError
from server_reference.models.transformer import Transformer
from tests.server_reference.checkpoints.hub_models import IDS, MODELS, peer, save, their_logits
from tests.server_reference.models.dense import all_logits


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


def changed(folder: Path, change: dict[str, Any]) -> Checkpoint:
    """The folder, with fields of its `config.json` replaced; `None` takes one out."""
    path = folder / "config.json"
    fields = json.loads(path.read_text()) | change
    path.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))
    return Checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(
            "llama-llama3",
            {
                "rope_parameters": None,
                "rope_theta": 5_000.0,
                "rope_scaling": {
                    "type": "llama3",
                    "factor": 4.0,
                    "low_freq_factor": 0.5,
                    "high_freq_factor": 3.0,
                    "original_max_position_embeddings": 16,
                },
            },
            id="rope_scaling",
        ),
        pytest.param(
            "gemma3",
            {
                "rope_parameters": None,
                "rope_theta": 50_000.0,
                "rope_local_base_freq": 2_000.0,
                "rope_scaling": {"rope_type": "linear", "factor": 4.0},
                "layer_types": None,
                "sliding_window_pattern": 4,
            },
            id="gemma3",
        ),
        pytest.param("gemma2", {"layer_types": None}, id="gemma2"),
        pytest.param("qwen2-windows", {"layer_types": None}, id="max_window_layers"),
        pytest.param("mistral", {"head_dim": None, "hidden_size": 48}, id="mistral"),
    ],
)
def test_settings_of_older_folders_mean_the_same(
    tmp_path: Path, name: str, change: dict[str, Any]
) -> None:
    checkpoint = Checkpoint(save(peer(name), tmp_path))
    expected = config_of(checkpoint)
    if name == "mistral":
        expected = replace(expected, head_dim=12)

    assert config_of(changed(tmp_path, change)) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"architectures": ["PhiForCausalLM"]},
            "'PhiForCausalLM'; take a causal .* llama",
            id="family",
        ),
        pytest.param({"architectures": None}, "architecture None", id="no-family"),
        pytest.param({"hidden_size": None}, "'hidden_size', which is needed", id="no-measure"),
        pytest.param({"hidden_size": "x"}, "'hidden_size' should be an integer", id="a-text"),
        pytest.param({"num_key_value_heads": 3}, "config.json: num_q_heads", id="groups"),
        pytest.param({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5", id="partial"),
        pytest.param(
            {"hidden_act": "relu"}, "'relu'; take a model whose is 'silu'", id="activation"
        ),
        pytest.param(
            {"quantization_config": {"quant_method": "gptq"}}, "quantised by 'gptq'", id="quantised"
        ),
        pytest.param(
            {"rope_parameters": {"rope_type": "longrope", "factor": 2.0}},
            "rope kind 'longrope' is not supported; take .* linear, llama3, yarn",
            id="rope-kind",
        ),
        pytest.param({"rope_parameters": {"rope_type": "linear"}}, "'factor'", id="no-factor"),
        pytest.param(
            {"rope_parameters": {"rope_type": "linear", "factor": 0}}, "rope's factor", id="factor"
        ),
        pytest.param({"rope_parameters": [1]}, "'rope_parameters' should be an", id="a-list"),
    ],
)
def test_settings_that_cannot_be_run_are_refused_by_name(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    save(peer("llama"), tmp_path)

    with pytest.raises(ModelFileError, match=message) as caught:
        config_of(changed(tmp_path, change))

    assert str(caught.value).count("config.json") == 1


def test_layers_of_unknown_kinds_are_refused(tmp_path: Path) -> None:
    save(peer("gemma2"), tmp_path)

    with pytest.raises(ModelFileError, match=r"layer_types has the kinds \['chunked_attention'"):
        config_of(changed(tmp_path, {"layer_types": ["chunked_attention"] * 4}))


def test_shards_give_the_same_weights(tmp_path: Path) -> None:
    model = peer("qwen3")
    one, many = tmp_path / "one", tmp_path / "many"
    save(model, one)
    save(model, many, max_shard_size="50KB")
    assert len(list(many.glob("model-*.safetensors"))) > 2

    weights = [
        weights_of(Checkpoint(folder), config_of(Checkpoint(folder)), torch.float32)
        for folder in (one, many)
    ]

    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["F16", "BF16"])
def test_halves_are_read_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    model = peer("llama").to(dtype)
    checkpoint = Checkpoint(save(model, tmp_path))

    weights = weights_of(checkpoint, config_of(checkpoint), torch.float32)

    assert torch.equal(weights["norm"], model.state_dict()["model.norm.weight"].float())


def test_frequencies_that_old_folders_keep_are_no_tensors_too_many(tmp_path: Path) -> None:
    model = peer("llama")
    checkpoint = Checkpoint(save(model, tmp_path))
    frequencies = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    save_file(_tensors(tmp_path) | frequencies, tmp_path / "model.safetensors")

    assert weights_of(checkpoint, config_of(checkpoint), torch.float32)


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


Q = "model.layers.1.self_attn.q_proj"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({f"{Q}.weight": None}, rf"lacks 1 .* \({Q}\.weight\)", id="missing"),
        pytest.param({f"{Q}.bias": torch.ones(64)}, rf"no place for \({Q}\.bias\)", id="extra"),
        pytest.param(
            {f"{Q}.weight": torch.ones(60, 48)},
            rf"'{Q}\.weight' has the shape \[60, 48\].*\[64, 48\]",
            id="shape",
        ),
        pytest.param(
            {f"{Q}.weight": torch.ones(64, 48, dtype=torch.int8)}, "is of type I8; take", id="type"
        ),
    ],
)
def test_tensors_that_are_not_the_models_are_refused_by_name(
    tmp_path: Path, change: dict[str, torch.Tensor | None], message: str
) -> None:
    checkpoint = Checkpoint(save(peer("llama"), tmp_path))
    tensors = _tensors(tmp_path) | change
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, tmp_path / "model.safetensors")

    with pytest.raises(ModelFileError, match=message):
        weights_of(checkpoint, config_of(checkpoint), torch.float32)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param((2**63).to_bytes(8, "little") + b"{}", id="huge-header"),
        pytest.param((2**33).to_bytes(8, "little") + b"{" * 99, id="header-past-the-end"),
        pytest.param((9).to_bytes(8, "little") + b"{" * 9, id="no-json"),
        pytest.param(None, id="cut-short"),
    ],
)
def test_a_damaged_file_of_weights_is_one_clear_error(
    tmp_path: Path, content: bytes | None
) -> None:
    checkpoint = Checkpoint(save(peer("llama"), tmp_path))
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)

    with pytest.raises(ModelFileError, match=r"model\.safetensors is damaged: .*; fetch it again"):
        weights_of(checkpoint, config_of(checkpoint), torch.float32)


def test_a_shard_without_a_tensor_of_the_index_is_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(save(peer("llama"), tmp_path, max_shard_size="50KB"))
    shard = min(tmp_path.glob("model-*.safetensors"))
    tensors = load_file(shard)
    lost = min(tensors)
    save_file({name: tensors[name] for name in tensors if name != lost}, shard)

    with pytest.raises(ModelFileError, match=rf"lacks 1 tensors of the index \({lost}"):
        weights_of(checkpoint, config_of(checkpoint), torch.float32)
