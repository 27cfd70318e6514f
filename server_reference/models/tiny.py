"""The built-in model: random weights from a fixed seed, for the mechanics of everything else."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from server_reference.models.registry import TINY_MAX_CONTEXT
from server_reference.models.tokenizer import ByteTokenizer
from server_reference.models.transformer import ModelConfig, weight_shapes

__all__ = ["TINY", "tiny_weights"]

TINY = ModelConfig(
    num_layers=4,
    hidden_size=128,
    intermediate_size=384,
    num_q_heads=4,
    num_kv_heads=2,
    head_dim=32,
    vocab_size=ByteTokenizer().vocab_size,
    max_context=TINY_MAX_CONTEXT,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    tie_embeddings=False,
)

_SEED = 20_240_613


def tiny_weights(dtype: torch.dtype) -> dict[str, Tensor]:
    """The same weights with every version of numpy and torch.

    Greedy output varies with the prompt, is mostly printable, and ends by itself now and then.
    """
    # The raw stream is what numpy keeps stable; its distributions may change (NEP 19).
    stream = np.random.PCG64(_SEED)
    return {
        name: torch.from_numpy(_values(stream, name, shape)).to(dtype)
        for name, shape in weight_shapes(TINY).items()
    }


def _values(stream: np.random.PCG64, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if name.endswith("norm"):
        return np.ones(shape, np.float32)
    raw = stream.random_raw(math.prod(shape)) >> np.uint64(40)  # 24 bits: exact in fp32
    uniform = raw.astype(np.float32) / np.float32(1 << 23) - np.float32(1)
    scale = _SCALES.get(name, math.sqrt(3 / shape[-1]))  # unit variance in, unit variance out
    return (uniform * np.float32(scale)).reshape(shape)


_SCALES: dict[str, float] = {"embedding": 1.0}
