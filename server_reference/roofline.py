"""What a step must read, write and compute at least, and how long that takes a chip at its best.

No step is faster; so a measured time reads as a share of what the chip could do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from .models.transformer import ModelConfig, weight_shapes

__all__ = ["CHIPS", "Chip", "Entry", "Roofline", "Work"]

Entry: TypeAlias = tuple[int, int]
"""Of a sequence in a step: its new tokens, and all of its tokens, the new ones included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A chip at its best, as its maker states it, without sparsity.

    Args:
        memory: Bytes.
        bandwidth: Of that memory, bytes a second.
        operations: Operations a second of the matrix units, by the type of their operands.
        source: Where the numbers are from.
    """

    name: str
    memory: float
    bandwidth: float
    operations: Mapping[str, float]
    source: str

    def at(self, *, bandwidth: float, operations: float) -> Chip:
        """The same chip at a share of its bandwidth, and of its operations."""
        slower = {kind: rate * operations for kind, rate in self.operations.items()}
        return replace(self, bandwidth=self.bandwidth * bandwidth, operations=slower)


CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            name="A100",
            memory=80e9,
            bandwidth=2.039e12,
            operations={"bf16": 312e12},
            source="NVIDIA A100 datasheet (2021), A100 80GB SXM",
        ),
        Chip(
            name="H100",
            memory=80e9,
            bandwidth=3.35e12,
            operations={"bf16": 989.5e12, "fp8": 1979e12},
            source="NVIDIA H100 datasheet (2023), H100 SXM, halved for what is said of sparsity",
        ),
        Chip(
            name="H200",
            memory=141e9,
            bandwidth=4.8e12,
            operations={"bf16": 989.5e12, "fp8": 1979e12},
            source="NVIDIA H200 datasheet (2024), H200 SXM, halved likewise",
        ),
        Chip(
            name="B200",
            memory=180e9,
            bandwidth=8e12,
            operations={"bf16": 2250e12, "fp8": 4500e12},
            source="NVIDIA DGX B200 datasheet (2024), an eighth of the system, halved likewise",
        ),
        Chip(
            name="MI300X",
            memory=192e9,
            bandwidth=5.3e12,
            operations={"bf16": 1307.4e12, "fp8": 2614.9e12},
            source="AMD Instinct MI300X data sheet (2023)",
        ),
    )
}
"""By name."""


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes to and from memory, and operations of matrix units."""

    bytes: float
    operations: float

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, self.operations + other.operations)

    def seconds(self, chip: Chip, kind: str = "bf16") -> float:
        """Of whichever takes longer; both go on at once.

        Args:
            kind: Of the operands.
        """
        return max(self.bytes / chip.bandwidth, self.operations / chip.operations[kind])


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The work of a model's steps, and the time that a chip needs for it.

    Args:
        weight_bytes: Of a value of the weights: 2 for bf16, 1 for fp8.
        kv_bytes: Of a value in the KV cache.
        activation_bytes: Of a value between two kernels, besides the fp32 stream.
        kind: Of the operands of the products.
    """

    config: ModelConfig
    chip: Chip
    weight_bytes: float = 2.0
    kv_bytes: float = 2.0
    activation_bytes: float = 2.0
    kind: str = "bf16"

    @property
    def kv_bytes_per_token(self) -> float:
        """Keys and values of one token in all layers."""
        config = self.config
        return 2 * config.num_layers * config.num_kv_heads * config.head_dim * self.kv_bytes

    @property
    def model_bytes(self) -> float:
        """All weights; a tied head is stored, and counted, once."""
        shapes = weight_shapes(self.config)
        return self.weight_bytes * sum(math.prod(shape) for shape in shapes.values())

    def room(self, share: float = 0.9) -> int:
        """Tokens that fit beside the weights into a share of the chip's memory."""
        return max(0, int((self.chip.memory * share - self.model_bytes) // self.kv_bytes_per_token))

    def work(self, entries: Sequence[Entry], logit_rows: int | None = None) -> dict[str, Work]:
        """What a step needs, by part; the parts come one after the other.

        Args:
            logit_rows: Rows of logits; `None`: one for each sequence.
        """
        num_tokens = sum(new for new, _ in entries)
        return {
            "products": self._products(num_tokens),
            "attention": self._attention(entries),
            "logits": self._logits(len(entries) if logit_rows is None else logit_rows),
            "activations": self._activations(num_tokens),
        }

    def seconds(self, entries: Sequence[Entry], logit_rows: int | None = None) -> float:
        """How long a step takes at least."""
        parts = self.work(entries, logit_rows)
        return sum(work.seconds(self.chip, self.kind) for work in parts.values())

    def _products(self, num_tokens: int) -> Work:
        """Every layer's matrices, once for all tokens of the step."""
        config = self.config
        q, kv = config.num_q_heads * config.head_dim, config.num_kv_heads * config.head_dim
        layer = config.hidden_size * (2 * q + 2 * kv + 3 * config.intermediate_size)
        values = config.num_layers * layer
        return Work(values * self.weight_bytes, 2.0 * values * num_tokens)

    def _attention(self, entries: Sequence[Entry]) -> Work:
        """Keys and values that a query sees are read once a step, new ones written once."""
        config = self.config
        windows = config.windows or (None,) * config.num_layers
        tokens = pairs = 0.0  # moved, and multiplied, in all layers
        for window in set(windows):
            moved = seen = 0.0
            for new, context in entries:
                moved += new + (context if window is None else min(context, window + new - 1))
                seen += context if new == 1 and window is None else _pairs(new, context, window)
            tokens += windows.count(window) * moved
            pairs += windows.count(window) * seen
        # Two products for each pair, of two operations each.
        per_pair = 4.0 * config.num_q_heads * config.head_dim
        return Work(tokens * self.kv_bytes_per_token / config.num_layers, pairs * per_pair)

    def _logits(self, rows: int) -> Work:
        """The head, and fp32 logits that are written, then read by the sampler."""
        config = self.config
        values = config.vocab_size * config.hidden_size if rows else 0
        logits = 2 * 4 * rows * config.vocab_size
        return Work(values * self.weight_bytes + logits, 2.0 * values * rows)

    def _activations(self, num_tokens: int) -> Work:
        """What one kernel writes and the next one reads, where norms and gates are fused."""
        config = self.config
        hidden, inner = config.hidden_size, config.intermediate_size
        q, kv = config.num_q_heads * config.head_dim, config.num_kv_heads * config.head_dim
        stream = 4 * 4 * hidden  # fp32, read and written by the two norms of a layer
        # normed twice, added twice; qkv; rotated queries, attended heads; gate and up, and gated
        between = 2 * self.activation_bytes * (4 * hidden + (q + 2 * kv) + 2 * q + 3 * inner)
        return Work(num_tokens * config.num_layers * (stream + between), 0.0)


def _pairs(new: int, context: int, window: int | None) -> float:
    """Queries and keys that they see: of a causal mask, and of a window in it."""
    before = context - new
    if window is None or context <= window:
        return new * before + new * (new + 1) / 2
    growing = max(0, min(new, window - before))  # queries that do not see a whole window yet
    return growing * before + growing * (growing + 1) / 2 + (new - growing) * window
