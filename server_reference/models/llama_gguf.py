"""Map a GGUF file of the Llama family to the transformer's measures and weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .gguf import GgufError, GgufFile
from .transformer import ModelConfig

__all__ = ["Part", "config_of", "parts_of", "weights_of"]

_ARCHITECTURE = "llama"
_TOP = {"token_embd.weight", "output_norm.weight", "output.weight"}
_PER_LAYER = {
    "attn_norm.weight",
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_output.weight",
    "ffn_norm.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
}


def config_of(file: GgufFile) -> ModelConfig:
    """The measures that the file's metadata gives.

    Raises:
        GgufError: The file is of another family, needs something that this transformer does
            not do, or lacks a measure.
    """
    metadata = file.metadata
    architecture = metadata.text("general.architecture")
    if architecture != _ARCHITECTURE:
        raise GgufError(
            f"{file.path} holds a model of the architecture {architecture!r}; only "
            f"{_ARCHITECTURE!r} (Llama, SmolLM2 and their like) is supported"
        )
    _refuse_unsupported(file)
    hidden_size = metadata.integer("llama.embedding_length")
    num_q_heads = metadata.integer("llama.attention.head_count")
    head_dim = _head_dim(file, hidden_size // max(num_q_heads, 1))
    vocabulary = file.tensors.get("token_embd.weight")
    if vocabulary is None:
        raise GgufError(f"{file.path} has no tensor 'token_embd.weight', which is needed to run it")
    try:
        return ModelConfig(
            num_layers=metadata.integer("llama.block_count"),
            hidden_size=hidden_size,
            intermediate_size=metadata.integer("llama.feed_forward_length"),
            num_q_heads=num_q_heads,
            num_kv_heads=metadata.integer("llama.attention.head_count_kv", num_q_heads),
            head_dim=head_dim,
            vocab_size=vocabulary.shape[0],
            max_context=metadata.integer("llama.context_length"),
            rope_theta=metadata.number("llama.rope.freq_base", 10_000.0),
            rms_norm_eps=metadata.number("llama.attention.layer_norm_rms_epsilon"),
            tie_embeddings="output.weight" not in file.tensors,
        )
    except GgufError:
        raise
    except ValueError as error:
        raise GgufError(f"{file.path}: {error}") from error


def _refuse_unsupported(file: GgufFile) -> None:
    """Raise for what would change the numbers and is not done here."""
    metadata = file.metadata
    scaling = metadata.text("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise GgufError(f"{file.path} scales its rope ({scaling!r}), which is not supported")
    unknown = sorted(name for name in file.tensors if not _is_known(name))
    if unknown:
        shown = ", ".join(unknown[:3]) + (", …" if len(unknown) > 3 else "")
        raise GgufError(
            f"{file.path} has {len(unknown)} tensors that this transformer has no place for "
            f"({shown}): biases, experts and rope factors are not supported"
        )


def _head_dim(file: GgufFile, usual: int) -> int:
    head_dim = file.metadata.integer("llama.attention.key_length", usual)
    rotated = file.metadata.integer("llama.rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise GgufError(
            f"{file.path} rotates {rotated} of the {head_dim} values of a head; only rope over "
            "whole heads is supported"
        )
    return head_dim


def _is_known(name: str) -> bool:
    layer = re.fullmatch(r"blk\.\d+\.(.+)", name)
    return layer[1] in _PER_LAYER if layer else name in _TOP


def weights_of(file: GgufFile, config: ModelConfig, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights under the transformer's names, dequantised to `dtype`.

    Raises:
        GgufError: A tensor is missing, or of a type that cannot be dequantised.
    """
    return {
        name: torch.from_numpy(np.array(values)).to(dtype) for name, values in _named(file, config)
    }


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor of the file that gives a weight some of its rows, or all; `rows`: their order."""

    tensor: str
    rows: NDArray[np.intp] | None = None


def parts_of(config: ModelConfig) -> dict[str, tuple[Part, ...]]:
    """The tensors that lie one below the other in each matrix."""
    parts: dict[str, tuple[Part, ...]] = {"embedding": (Part("token_embd.weight"),)}
    parts["head"] = parts["embedding"] if config.tie_embeddings else (Part("output.weight"),)

    def halves(count: int) -> NDArray[np.intp]:
        pairs = np.arange(count * config.head_dim).reshape(-1, config.head_dim // 2, 2)
        return pairs.swapaxes(1, 2).reshape(-1)

    for at in range(config.num_layers):
        layer, blk = f"layers.{at}", f"blk.{at}"
        parts[f"{layer}.qkv"] = (
            Part(f"{blk}.attn_q.weight", halves(config.num_q_heads)),
            Part(f"{blk}.attn_k.weight", halves(config.num_kv_heads)),
            Part(f"{blk}.attn_v.weight"),
        )
        parts[f"{layer}.attention_out"] = (Part(f"{blk}.attn_output.weight"),)
        parts[f"{layer}.gate_up"] = (
            Part(f"{blk}.ffn_gate.weight"),
            Part(f"{blk}.ffn_up.weight"),
        )
        parts[f"{layer}.down"] = (Part(f"{blk}.ffn_down.weight"),)
    return parts


def _named(file: GgufFile, config: ModelConfig) -> Iterator[tuple[str, NDArray[np.float32]]]:
    hidden = config.hidden_size
    yield "embedding", _tensor(file, "token_embd", config.vocab_size, hidden)
    for at in range(config.num_layers):
        for name, values in _layer(file, f"blk.{at}", config):
            yield f"layers.{at}.{name}", values
    yield "norm", _tensor(file, "output_norm", hidden)
    if not config.tie_embeddings:
        yield "head", _tensor(file, "output", config.vocab_size, hidden)


def _layer(
    file: GgufFile, prefix: str, config: ModelConfig
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    hidden, inner, head_dim = config.hidden_size, config.intermediate_size, config.head_dim
    q_rows, kv_rows = config.num_q_heads * head_dim, config.num_kv_heads * head_dim
    q = _halves(_tensor(file, f"{prefix}.attn_q", q_rows, hidden), head_dim)
    k = _halves(_tensor(file, f"{prefix}.attn_k", kv_rows, hidden), head_dim)
    v = _tensor(file, f"{prefix}.attn_v", kv_rows, hidden)
    gate = _tensor(file, f"{prefix}.ffn_gate", inner, hidden)
    up = _tensor(file, f"{prefix}.ffn_up", inner, hidden)
    yield "attention_norm", _tensor(file, f"{prefix}.attn_norm", hidden)
    yield "qkv", np.concatenate((q, k, v))
    yield "attention_out", _tensor(file, f"{prefix}.attn_output", hidden, q_rows)
    yield "mlp_norm", _tensor(file, f"{prefix}.ffn_norm", hidden)
    yield "gate_up", np.concatenate((gate, up))
    yield "down", _tensor(file, f"{prefix}.ffn_down", hidden, inner)


def _tensor(file: GgufFile, name: str, *shape: int) -> NDArray[np.float32]:
    values = file.tensor(f"{name}.weight")
    if values.shape != shape:
        raise GgufError(
            f"{file.path}: tensor '{name}.weight' has the shape {list(values.shape)}, but the "
            f"metadata asks for {list(shape)}"
        )
    return values


def _halves(rows: NDArray[np.float32], head_dim: int) -> NDArray[np.float32]:
    """Put each head's rows back to (i, i + head_dim / 2) pairs.

    Files of this family hold them interleaved, (2i, 2i + 1), for ggml's rope.

    Source:
        ggml-org/llama.cpp, convert_hf_to_gguf.py, `LlamaModel.permute`.
    """
    pairs = rows.reshape(-1, head_dim // 2, 2, rows.shape[-1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
