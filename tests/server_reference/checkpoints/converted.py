"""A model of `hub_models` as a GGUF file, converted as llama.cpp's own script does it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.constants import MODEL_ARCH, GGMLQuantizationType

__all__ = ["convert"]

_ARCHITECTURES = {
    "llama": MODEL_ARCH.LLAMA,
    "mistral": MODEL_ARCH.LLAMA,
    "qwen2": MODEL_ARCH.QWEN2,
    "qwen3": MODEL_ARCH.QWEN3,
    "gemma2": MODEL_ARCH.GEMMA2,
    "gemma3_text": MODEL_ARCH.GEMMA3,
}


def convert(
    model: Any, path: Path, *, kind: GGMLQuantizationType = GGMLQuantizationType.F32
) -> Path:
    """Write `model`.

    Args:
        kind: Type of the matrices.
    """
    config = model.config
    architecture = _ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    _measures(writer, config)
    _rope(writer, config)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    for name, values in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = values.float()
        if "gemma" in config.model_type and name.endswith("norm.weight"):
            values = values + 1
        if architecture is MODEL_ARCH.LLAMA and name.endswith(("q_proj.weight", "k_proj.weight")):
            values = _interleaved(values, config.head_dim)
        its = kind if values.ndim == 2 else GGMLQuantizationType.F32
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new is not None
        writer.add_tensor(new, gguf.quants.quantize(values.numpy(), its), raw_dtype=its)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _interleaved(values: torch.Tensor, head_dim: int) -> torch.Tensor:
    pairs = values.reshape(-1, 2, head_dim // 2, values.shape[-1])
    return pairs.swapaxes(1, 2).reshape(values.shape)


def _measures(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("none")
    writer.add_rope_dimension_count(config.head_dim)
    window = getattr(config, "sliding_window", None)
    if window:
        writer.add_sliding_window(window)
    types = getattr(config, "layer_types", None)
    if window and types:
        writer.add_sliding_window_pattern([one == "sliding_attention" for one in types])
    if getattr(config, "attn_logit_softcapping", None):
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    if getattr(config, "final_logit_softcapping", None):
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _rope(writer: gguf.GGUFWriter, config: Any) -> None:
    rope = config.rope_parameters
    if "full_attention" in rope:
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        rope = rope["full_attention"]
    writer.add_rope_freq_base(rope["rope_theta"])
    match rope["rope_type"]:
        case "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        case "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(rope["factor"])
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            if "attention_factor" in rope:
                writer.add_rope_scaling_yarn_attn_factor(rope["attention_factor"])
            if "beta_fast" in rope:
                writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        case "llama3":
            writer.add_tensor("rope_freqs.weight", _divisors(rope, config.head_dim))


def _divisors(rope: dict[str, Any], head_dim: int) -> np.ndarray[Any, Any]:
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    made = []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * pair / head_dim)
        turns = rope["original_max_position_embeddings"] / wavelength
        smooth = min(max((turns - low) / (high - low), 0), 1)
        made.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(made, np.float32)
