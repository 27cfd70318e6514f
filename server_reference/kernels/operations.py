"""What is computed besides products and attention: the seam between a model and a device.

`eager.py` and `fused.py` are the two bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from .draw import Draw
from .sampler import Sampled

__all__ = ["Activation", "Operations"]

Activation: TypeAlias = Literal["silu", "gelu_tanh"]
"""Of an MLP's gate; `gelu_tanh` is GELU with its hyperbolic tangent."""


class Operations(Protocol):
    """Functions that a device has its own way of computing."""

    def embed(
        self, token_ids: Tensor, table: Tensor, *, scale: float, newest: Tensor | None
    ) -> Tensor:
        """Look up the embeddings of a batch's tokens: the stream's first rows.

        Args:
            token_ids: `[num_tokens]`, int64, below `vocab_size`. With `newest`, a negative one,
                `-1 - row`, stands for `newest[row]`.
            table: `[vocab_size, hidden]`, contiguous.
            scale: Factor on the embeddings.
            newest: The token that each sequence drew last, int64; a negative one, of a
                sequence whose logits were no numbers, counts as 0.

        Returns:
            `[num_tokens, hidden]`, fp32.
        """

    def add_and_normalise(
        self,
        x: Tensor,
        weight: Tensor,
        *,
        eps: float,
        dtype: torch.dtype,
        added: Tensor | None,
        post_weight: Tensor | None,
    ) -> Tensor:
        """Add what a layer gave to the stream, in place, and normalise its rows for the next one.

        Args:
            x: The stream, `[num_tokens, hidden]`, fp32, contiguous; `added` is added to it.
            weight: `[hidden]`, fp32: the norm's weight, its offset included, times
                `sqrt(hidden)`.
            eps: Added to the mean of a row's squares.
            dtype: Of the result.
            added: `[num_tokens, hidden]`, contiguous; `None`: nothing.
            post_weight: Like `weight`: `added` is normalised by it first, as Gemma's layers do.

        Returns:
            `[num_tokens, hidden]`: `x * weight / sqrt(sum(x**2) + hidden * eps)`.
        """

    def activate(self, gate_up: Tensor, activation: Activation) -> Tensor:
        """Multiply one half of each row by the activation of the other.

        Args:
            gate_up: The gate's values, then those it lets through, `[num_tokens, 2 *
                intermediate]`, contiguous; it may be changed.

        Returns:
            `[num_tokens, intermediate]`, `gate_up`'s dtype.
        """

    def sample(self, logits: Tensor, draws: Sequence[Draw]) -> Sampled:
        """Draw the next token of each row.

        Args:
            logits: `[rows, vocab_size]`, fp32; they stay as they are.
            draws: One for each row.
        """
