"""Random numbers that are a hash of (seed, output index, token id).

They do not depend on what else is in the batch, and any device can make the same ones.

Source: Maddison et al., "A* Sampling", 2014 (the Gumbel-max trick); the hash's finalizer
is MurmurHash3's `fmix32`, seeded through SplitMix64.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_NOISE", "draw_key", "gumbel_noise", "least_hash", "token_hashes"]

_MASK_64 = 0xFFFFFFFFFFFFFFFF
_MIX = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))

MAX_NOISE = 22.9
"""No noise is above it: 32 bits hold none that is rarer."""


def draw_key(seed: int, index: int) -> int:
    """64 bits for one draw: `seed` is 64 bits, `index` counts the output's tokens."""
    return _mix64(seed ^ _mix64(index + 1))


def token_hashes(keys: Sequence[int], token_ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """32 even random bits for each token of each draw, written over `token_ids`.

    Args:
        keys: A `draw_key` for each row.
        token_ids: `[rows, num_tokens]`.
    """
    pairs = np.array(keys, np.uint64)[:, None]
    bits, spare = token_ids, np.empty_like(token_ids)
    for key in (pairs.astype(np.uint32), (pairs >> np.uint64(32)).astype(np.uint32)):
        np.bitwise_xor(bits, key, out=bits)
        for shift, factor in _MIX:
            np.right_shift(bits, np.uint32(shift), out=spare)
            np.bitwise_xor(bits, spare, out=bits)
            np.multiply(bits, np.uint32(factor), out=bits)
        np.right_shift(bits, np.uint32(16), out=spare)
        np.bitwise_xor(bits, spare, out=bits)
    return bits


def gumbel_noise(hashes: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Noise of the standard Gumbel distribution, one for each hash."""
    noise: NDArray[np.float64] = -np.log(-np.log((hashes + 0.5) / 2.0**32))
    return noise.astype(np.float32)


def least_hash(noise: float) -> np.uint32:
    """No hash below it has noise above `noise`."""
    return np.uint32(max(0, ceil(2.0**32 * exp(-exp(-noise))) - 2))


def _mix64(value: int) -> int:
    """SplitMix64's output function."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK_64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return value ^ (value >> 31)
