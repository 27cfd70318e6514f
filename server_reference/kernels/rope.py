"""Rotary position embeddings: how fast each pair of a head turns, and the angles of all positions.

Source:
    Su et al., "RoFormer", 2021, section 3.2.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

__all__ = ["RopeKind", "RopeScaling", "rotate_", "rotations"]

RopeKind: TypeAlias = Literal["linear", "llama3", "yarn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """How the frequencies are slowed down for contexts beyond the one first trained on.

    Args:
        kind: `linear` slows all of them; `llama3` and `yarn` spare the fast ones.
        factor: How much longer the context became.
        original_context: Tokens of the first one; not of `linear`.
        low_freq_factor: Of `llama3`: pairs that turn fewer times than this over the original
            context are slowed in full.
        high_freq_factor: Of `llama3`: those that turn more often are not slowed.
        beta_fast: Of `yarn`, like `high_freq_factor`.
        beta_slow: Of `yarn`, like `low_freq_factor`.
        attention_factor: Of `yarn`: multiplies queries and keys; `None` takes the paper's.
        truncate: Of `yarn`: the ramp between the two begins and ends at whole pairs.
        divisors: Of `llama3`, the slowdown of each pair, where a file holds them computed.

    Raises:
        ValueError: A number is out of its range.
    """

    kind: RopeKind
    factor: float = 1.0
    original_context: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True
    divisors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        names = ["factor", "original_context", "low_freq_factor", "beta_fast", "beta_slow"]
        names += [] if self.attention_factor is None else ["attention_factor"]
        for name in names:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"rope's {name} must be above 0, not {getattr(self, name)}")
        if self.kind == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            raise ValueError(
                f"rope's high_freq_factor ({self.high_freq_factor}) must be above its "
                f"low_freq_factor ({self.low_freq_factor})"
            )

    @property
    def magnitude(self) -> float:
        """What cosines and sines are multiplied by."""
        if self.kind != "yarn":
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor
        return 1.0 if self.factor <= 1 else 0.1 * math.log(self.factor) + 1.0

    def slowed(self, frequencies: Tensor, theta: float) -> Tensor:
        """Radians per token of each pair, `[head_dim / 2]`, fp32.

        Source:
            Chen et al., "Position Interpolation", 2023 (`linear`); Peng et al., "YaRN", 2023,
            sections 3.2 and 3.4; "The Llama 3 Herd of Models", 2024, section 3.4.2, and
            meta-llama/llama-models, models/llama3/model.py, `apply_scaling`.
        """
        if self.divisors:
            return frequencies / torch.tensor(self.divisors)
        if self.kind == "linear":
            return frequencies / self.factor
        kept = (
            self._kept_llama3(frequencies)
            if self.kind == "llama3"
            else self._kept_yarn(len(frequencies), theta)
        )
        return frequencies * kept + frequencies / self.factor * (1 - kept)

    def _kept_llama3(self, frequencies: Tensor) -> Tensor:
        turns = self.original_context * frequencies / (2 * math.pi)
        span = self.high_freq_factor - self.low_freq_factor
        return ((turns - self.low_freq_factor) / span).clamp(0, 1)

    def _kept_yarn(self, num_pairs: int, theta: float) -> Tensor:
        def pair(turns: float) -> float:
            """Which pair turns so often over the original context."""
            ratio = self.original_context / (turns * 2 * math.pi)
            return num_pairs * math.log(ratio) / math.log(theta)

        first, last = pair(self.beta_fast), pair(self.beta_slow)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * num_pairs - 1)
        width = last - first or 0.001
        return 1 - ((torch.arange(num_pairs, dtype=torch.float32) - first) / width).clamp(0, 1)


def rotations(
    *, theta: float, scaling: RopeScaling | None, head_dim: int, max_context: int
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's angles, `[max_context, head_dim]`, fp32.

    Those of one angle stand at both places of its pair; the first place's sine is negated.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    frequencies = 1.0 / theta**exponents
    magnitude = 1.0
    if scaling is not None:
        frequencies, magnitude = scaling.slowed(frequencies, theta), scaling.magnitude
    angles = torch.outer(torch.arange(max_context, dtype=torch.float32), frequencies)
    cos, sin = angles.cos() * magnitude, angles.sin() * magnitude
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def rotate_(heads: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Turn the pairs (i, i + head_dim / 2) of each head where it is; in fp32, rounded once."""
    others = heads.roll(heads.shape[-1] // 2, -1) * sin
    # Not addcmul: a fused product would round as the row's place in the batch has it.
    heads.copy_(others.add_(heads * cos))
