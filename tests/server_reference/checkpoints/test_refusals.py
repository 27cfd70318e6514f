"""Whatever cannot be run says what is missing, and what to do instead.

Every kind of tokenizer, of weights and of layers that other engines are known to read.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.torch import load_file, save_file

from server_reference.checkpoints.checkpoint import Checkpoint
from server_reference.checkpoints.checkpoint_models import config_of, weights_of
from server_reference.checkpoints.errors import ModelFileError
from server_reference.checkpoints.families import FAMILIES
from server_reference.checkpoints.gguf import GgufFile
from server_reference.checkpoints.load import load
from server_reference.config import EngineConfig
from tests.server_reference.checkpoints.gguf_files import write_gguf
from tests.server_reference.checkpoints.hub_models import peer, save

ADVICE = re.compile(
    r"[;:] (take|convert|fetch|join|give|merge|transformers makes) |; convert the model again"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is not refused after all."""
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "cache"))


def refusal(model: Path) -> str:
    with pytest.raises(ModelFileError) as raised:
        load(EngineConfig(model=str(model), dtype="fp32"))
    message = str(raised.value)
    assert ADVICE.search(message), f"no advice: {message}"
    assert str(model) in message
    return message


# GGUF.

ARCHITECTURES = set(gguf.MODEL_ARCH_NAMES.values()) - {"llama", *FAMILIES}


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES | {"mistral", "new"}))
def test_another_architecture_of_a_gguf_file(tmp_path: Path, architecture: str) -> None:
    message = refusal(write_gguf(tmp_path / "odd.gguf", architecture=architecture))

    assert f"{architecture!r}; take one of gemma2, gemma3, llama, qwen2, qwen3" in message


def _fused(*names: str) -> dict[str, Any]:
    return {
        "without": [f"blk.0.{name}.weight" for name in names],
        "extra": {"blk.0.attn_qkv.weight": np.zeros((128, 64), np.float32)},
    }


def _extra(name: str, *shape: int) -> dict[str, Any]:
    return {"extra": {name: np.zeros(shape, np.float32)}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param(
            _fused("attn_q", "attn_k", "attn_v"),
            "(blk.0.attn_qkv.weight): queries, keys and values in one tensor cannot be read; "
            "convert the model again with attn_q, attn_k and attn_v apart",
            id="fused-attention",
        ),
        pytest.param(
            _extra("blk.0.ffn_up_exps.weight", 2, 64), "experts are not supported", id="experts"
        ),
        pytest.param(
            _extra("blk.0.ffn_gate_inp.weight", 2, 64), "experts are not supported", id="router"
        ),
        pytest.param(_extra("blk.0.attn_q.bias", 64), "biases there are not supported", id="bias"),
        pytest.param(_extra("blk.0.attn_q.weight.lora_a", 2, 64), "adapters are not", id="lora"),
        pytest.param(_extra("v.vision.weight", 2, 64), "see or hear are not", id="images"),
        pytest.param(
            _extra("blk.0.attn_sinks.weight", 4), "take a model without them", id="unknown"
        ),
        pytest.param({"without": ["blk.1.ffn_up.weight"]}, "lacks 1 tensors", id="lost"),
        pytest.param({"split__count": 3}, "is one of 3 files of a model; join them", id="split"),
        pytest.param({"general__type": "adapter"}, "no model but 'adapter'", id="adapter"),
        pytest.param({"llama__rope__scaling__type": "longrope"}, "rope kind 'longrope'", id="rope"),
        pytest.param({"llama__rope__dimension_count": 8}, "rotates 8 of the 16", id="part-of-head"),
    ],
)
def test_a_gguf_file_of_another_build(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    assert said in refusal(write_gguf(tmp_path / "odd.gguf", **changes))


@pytest.mark.parametrize("kind", ["bert", "t5", "rwkv", "plamo2", "none", "no_vocab", "new"])
def test_another_kind_of_tokenizer_of_a_gguf_file(tmp_path: Path, kind: str) -> None:
    changes: dict[str, Any] = {"tokenizer__ggml__model": kind}

    message = refusal(write_gguf(tmp_path / "odd.gguf", **changes))

    assert f"kind {kind!r}; take a model with 'gpt2' (byte-level BPE) or 'llama'" in message


@pytest.mark.parametrize(
    "cut",
    ["default", "deepseek-llm", "falcon", "starcoder", "tekken", "gpt-4o", "command-r", "new"],
)
def test_another_cut_of_a_gguf_file(tmp_path: Path, cut: str) -> None:
    changes: dict[str, Any] = {"tokenizer__ggml__pre": cut}

    message = refusal(write_gguf(tmp_path / "odd.gguf", **changes))

    assert f"pre-tokenizer {cut!r}; supported are gpt-2, llama-bpe" in message
    assert "take the model as a folder" in message


def _is_known(kind: GGMLQuantizationType) -> bool:
    try:
        dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


OTHERS = sorted(kind.name for kind in GGMLQuantizationType if not _is_known(kind))


def test_the_types_that_models_are_published_in_are_no_others() -> None:
    assert {"Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS", "BF16"}.isdisjoint(OTHERS)
    assert {"I8", "F64", "Q8_K"} <= set(OTHERS)


@pytest.mark.parametrize("name", OTHERS)
def test_another_type_of_weights_of_a_gguf_file(tmp_path: Path, name: str) -> None:
    kind = GGMLQuantizationType[name]
    _, num_bytes = GGML_QUANT_SIZES[kind]
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    raw = np.zeros((2, num_bytes), np.uint8)
    writer.add_tensor("odd.weight", raw, raw_shape=raw.shape, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with pytest.raises(ModelFileError) as raised:
        GgufFile(path).tensor("odd.weight")

    message = str(raised.value)
    assert f"'odd.weight' is of type {name}, which cannot be dequantised here" in message
    assert ADVICE.search(message)


# Folders.


def changed(tmp_path: Path, **change: Any) -> Path:
    folder = save(peer("llama"), tmp_path / "odd")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(ModelFileError) as raised:
        weights_of(Checkpoint(folder), config_of(Checkpoint(folder)), torch.float32)
    message = str(raised.value)
    assert ADVICE.search(message), f"no advice: {message}"
    return message


@pytest.mark.parametrize(
    "name",
    [
        "MixtralForCausalLM",
        "Qwen2MoeForCausalLM",
        "Phi3ForCausalLM",
        "GPT2LMHeadModel",
        "BertModel",
        "T5ForConditionalGeneration",
        "Gemma3ForConditionalGeneration",
        "LlamaForSequenceClassification",
        "MambaForCausalLM",
    ],
)
def test_another_architecture_of_a_folder(tmp_path: Path, name: str) -> None:
    message = refused(changed(tmp_path, architectures=[name]))

    assert f"names the architecture {name!r}; take a causal language model of llama" in message


@pytest.mark.parametrize(
    "method",
    [
        "gptq",
        "awq",
        "fp8",
        "bitsandbytes",
        "compressed-tensors",
        "mxfp4",
        "hqq",
        "aqlm",
        "eetq",
        "quanto",
        "torchao",
    ],
)
def test_a_folder_that_is_quantised(tmp_path: Path, method: str) -> None:
    message = refused(changed(tmp_path, quantization_config={"quant_method": method}))

    assert f"quantised by {method!r}, which cannot be read; take the model unquantised" in message


@pytest.mark.parametrize("kind", ["dynamic", "longrope", "su", "proportional", "new"])
def test_another_rope_of_a_folder(tmp_path: Path, kind: str) -> None:
    message = refused(changed(tmp_path, rope_parameters={"rope_type": kind, "factor": 2.0}))

    assert f"the rope kind {kind!r} is not supported; take a model whose is linear" in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"partial_rotary_factor": 0.5}, "only rope over whole heads", id="part"),
        pytest.param({"hidden_act": "relu2"}, "'relu2'; take a model whose is", id="activation"),
        pytest.param(
            {"use_sliding_window": True, "sliding_window": 8, "layer_types": ["chunked_attention"]},
            "the kinds ['chunked_attention']; take a model of",
            id="layers",
        ),
    ],
)
def test_other_settings_of_a_folder(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    assert said in refused(changed(tmp_path, **change))


LAYER = "model.layers.0"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param(f"{LAYER}.self_attn.qkv_proj.weight", "q_proj, k_proj and v_proj", id="qkv"),
        pytest.param(f"{LAYER}.mlp.gate_up_proj.weight", "gate_proj and up_proj apart", id="gate"),
        pytest.param(f"{LAYER}.mlp.experts.0.w1.weight", "mixtures of experts", id="experts"),
        pytest.param(f"{LAYER}.self_attn.q_proj.bias", "biases there", id="bias"),
        pytest.param("vision_tower.patch.weight", "see or hear", id="images"),
        pytest.param(f"{LAYER}.self_attn.q_proj.lora_A.weight", "adapters", id="adapter"),
        pytest.param(f"{LAYER}.mlp.odd.weight", "take a model without them", id="unknown"),
    ],
)
def test_other_tensors_of_a_folder(tmp_path: Path, name: str, said: str) -> None:
    folder = changed(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {name: torch.zeros(4, 4)}, folder / "model.safetensors")

    message = refused(folder)

    assert f"({name}): " in message
    assert said in message


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2],
    ids=str,
)
def test_another_type_of_weights_of_a_folder(tmp_path: Path, dtype: torch.dtype) -> None:
    folder, name = changed(tmp_path), "model.norm.weight"
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = tensors[name].to(dtype)
    save_file(tensors, folder / "model.safetensors")

    assert "; take the model in one of F32, F16, BF16" in refused(folder)
