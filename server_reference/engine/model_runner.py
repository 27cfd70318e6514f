"""Run the model on a scheduled step and sample its next tokens."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

import torch
from torch import Tensor

from ..core import Sequence
from ..models.transformer import Transformer
from .attention_backends import AttentionBackend
from .batch_builder import build_batch
from .sampler import Draw, sample
from .scheduler import Step

__all__ = ["LogitsObserver", "ModelRunner"]

LogitsObserver = Callable[[Seq[Sequence], Tensor], None]
"""Called with the sampled sequences and their logits, `[rows, vocab_size]`, fp32."""


class ModelRunner:
    """One model with its KV cache.

    Args:
        transformer: The model.
        attention: The device's attention, which owns the KV cache.
        block_size: Tokens per KV block.
        seed: Seeds sequences that bring no seed, each differently.
        on_logits: Sees all logits before they are sampled.
    """

    def __init__(
        self,
        transformer: Transformer,
        attention: AttentionBackend,
        *,
        block_size: int,
        seed: int = 0,
        on_logits: LogitsObserver | None = None,
    ) -> None:
        self._transformer = transformer
        self._attention = attention
        self._block_size = block_size
        self._seed = seed
        self._on_logits = on_logits

    def run(self, step: Step) -> list[tuple[Sequence, int | None]]:
        """The next token of every sequence that reaches its target in this step.

        `None` stands for a token that could not be sampled because logits were not numbers.
        A sequence that asked for no output is not among them.
        """
        batch = build_batch(step, block_size=self._block_size)
        self._attention.begin(batch)
        with torch.inference_mode():
            hidden = self._transformer.hidden(
                torch.from_numpy(batch.token_ids),
                torch.from_numpy(batch.positions),
                self._attention,
            )
            if not batch.sampled:
                return []
            logits = self._transformer.logits(hidden[torch.from_numpy(batch.sample_rows)])
            if self._on_logits is not None:
                self._on_logits(batch.sampled, logits)
            drawn = sample(logits, [self._draw(sequence) for sequence in batch.sampled])
            tokens = drawn.host_tokens()
        return list(zip(batch.sampled, tokens, strict=True))

    def _draw(self, sequence: Sequence) -> Draw:
        seed = sequence.params.seed
        if seed is None:
            # Apart from each other, and from the seeds that callers choose.
            seed = (self._seed + 1) * 0x9E3779B97F4A7C15 + sequence.arrival
        return Draw(sequence.params, seed & 0xFFFFFFFFFFFFFFFF, len(sequence.output_token_ids))
