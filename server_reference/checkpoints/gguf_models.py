"""Map a GGUF file to a model's measures and weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..kernels.rope import RopeScaling
from ..models.transformer import ModelConfig
from . import families
from .families import FAMILIES, Part, Parts
from .gguf import GgufError, GgufFile, Metadata

__all__ = ["config_of", "parts_of", "weights_of"]

# What the fields of `config.json` are called in GGUF, behind the architecture.
_FIELDS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "sliding_window": "attention.sliding_window",
    "sliding_window_pattern": "attention.sliding_window_pattern",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
_SCALING = {
    "rope_type": "scaling.type",
    "factor": "scaling.factor",
    "original_max_position_embeddings": "scaling.original_context_length",
    "attention_factor": "scaling.yarn_attn_factor",
    "beta_fast": "scaling.yarn_beta_fast",
    "beta_slow": "scaling.yarn_beta_slow",
}
_ROPE_FACTORS = "rope_freqs.weight"
# Layers of the models whose scores are scaled by another measure than the head's size.
_SCALED_BY_HIDDEN = {"gemma2": 46, "gemma3": 62}


def config_of(file: GgufFile) -> ModelConfig:
    """The measures that the file's metadata gives.

    Raises:
        ModelFileError: The file is of another family, needs something that this transformer
            does not do, or lacks a measure.
    """
    metadata = file.metadata
    architecture = metadata.text("general.architecture")
    family = FAMILIES.get(architecture)
    if family is None or architecture == "mistral":  # whose files are of `llama`
        raise GgufError(
            f"{file.path} holds a model of the architecture {architecture!r}; take one of "
            f"{', '.join(sorted(FAMILIES.keys() - {'mistral'}))}"
        )
    vocabulary = file.tensors.get("token_embd.weight")
    if vocabulary is None:
        raise GgufError(f"{file.path} has no tensor 'token_embd.weight', which is needed to run it")
    fields = metadata.named({name: f"{architecture}.{key}" for name, key in _FIELDS.items()})
    config = families.measures(
        fields,
        family,
        vocab_size=vocabulary.shape[0],
        tie_embeddings="output.weight" not in file.tensors,
        rope_theta=metadata.number(f"{architecture}.rope.freq_base", 10_000.0),
        local_rope_theta=metadata.number(f"{architecture}.rope.freq_base_swa", 10_000.0)
        if architecture == "gemma3"
        else None,
        scaling=_scaling(file, architecture, fields),
    )
    _refuse_partial_rope(file, architecture, config.head_dim)
    if _SCALED_BY_HIDDEN.get(architecture) == config.num_layers:
        return replace(config, attention_scale=(config.hidden_size / config.num_q_heads) ** -0.5)
    return config


def _scaling(file: GgufFile, architecture: str, fields: Metadata) -> RopeScaling | None:
    if _ROPE_FACTORS in file.tensors:
        divisors = tuple(file.tensor(_ROPE_FACTORS).tolist())
        return RopeScaling(kind="llama3", divisors=divisors)
    named = {name: f"{architecture}.rope.{key}" for name, key in _SCALING.items()}
    if file.metadata.text(named["rope_type"], "none") == "none":
        return None
    max_context = fields.integer("max_position_embeddings")
    return families.rope_scaling(file.path, file.metadata.named(named), max_context=max_context)


def _refuse_partial_rope(file: GgufFile, architecture: str, head_dim: int) -> None:
    rotated = file.metadata.integer(f"{architecture}.rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise GgufError(
            f"{file.path} rotates {rotated} of the {head_dim} values of a head; only rope over "
            "whole heads is supported: take another model"
        )


def parts_of(file: GgufFile, config: ModelConfig) -> Parts:
    """Which tensors make up each weight.

    Raises:
        ModelFileError: A tensor is missing, has no place, or is of another shape.
    """
    shapes = {name: info.shape for name, info in file.tensors.items()}
    parts = families.parts_of(file.path, config, shapes, layout="gguf", ignored=[_ROPE_FACTORS])
    if file.metadata.text("general.architecture") != "llama":
        return parts
    return {
        name: tuple(_in_halves(part, config.head_dim) for part in own)
        for name, own in parts.items()
    }


def _in_halves(part: Part, head_dim: int) -> Part:
    """Take the rows of each head of queries and keys as (i, i + head_dim / 2) pairs.

    Files of this architecture hold them interleaved, (2i, 2i + 1), for ggml's rope.

    Source:
        ggml-org/llama.cpp, conversion/llama.py, `LlamaModel.permute`.
    """
    if not part.tensor.endswith(("attn_q.weight", "attn_k.weight")):
        return part
    pairs = np.arange(part.shape[0]).reshape(-1, head_dim // 2, 2)
    return replace(part, rows=pairs.swapaxes(1, 2).reshape(-1))


def weights_of(file: GgufFile, config: ModelConfig, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights under the transformer's names, dequantised to `dtype`.

    Raises:
        ModelFileError: As `parts_of` does, or a tensor is of a type that cannot be dequantised.
    """

    def read(name: str) -> Tensor:
        values = torch.from_numpy(np.array(file.tensor(name)))
        return values - config.norm_offset if name.endswith("norm.weight") else values

    return families.build(config, parts_of(file, config), read, dtype)
