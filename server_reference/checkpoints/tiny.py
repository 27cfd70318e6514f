"""The built-in model: random weights from a fixed seed, for the mechanics of everything else."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.transformer import ModelConfig, weight_shapes
from ..text.tokenizer import ByteTokenizer
from .registry import TINY_MAX_CONTEXT

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

_ENDS = ByteTokenizer().eos_token_ids
_SEED = 6  # of the first ten, the one whose outputs differ most and end least early


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
    # Unit variance in, unit variance out; an embedding row is the output of no sum.
    scale = 1.0 if name == "embedding" else math.sqrt(3 / shape[-1])
    values = (uniform * np.float32(scale)).reshape(shape)
    return values * _favour_readable() if name == "head" else values


def _favour_readable() -> NDArray[np.float32]:
    """A factor per row of the head: printable ASCII and the end of a turn win as a rule."""
    factors = np.full((TINY.vocab_size, 1), 0.5, np.float32)
    factors[[*b"\n", *range(0x20, 0x7F), *_ENDS]] = 3.0
    return factors
