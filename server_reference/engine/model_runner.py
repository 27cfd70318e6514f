"""Run the model on a scheduled step and sample its next tokens."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..core import Sequence
from ..models.transformer import Transformer
from .attention_backends import AttentionBackend
from .batch_builder import Batch, build_batch
from .sampler import Draw, sample
from .scheduler import Scheduled, Step

__all__ = ["Flight", "LogitsObserver", "ModelRunner"]

LogitsObserver = Callable[[Seq[Sequence], Tensor], None]
"""Called with the sampled sequences and their logits, `[rows, vocab_size]`, fp32."""


@dataclass(slots=True, eq=False)
class Flight:
    """A step that was launched: its batch, then its logits, then the tokens drawn from them."""

    step: Step
    batch: Batch
    logits: Tensor | None
    tokens: list[int | None] = field(default_factory=list)


class ModelRunner:
    """One model with its KV cache.

    Args:
        transformer: The model.
        attention: The device's attention, which owns the KV cache.
        block_size: Tokens per KV block.
        max_num_seqs: Rows that sequences may have.
        seed: Seeds sequences that bring no seed, each differently.
        on_logits: Sees all logits before they are sampled.
    """

    def __init__(
        self,
        transformer: Transformer,
        attention: AttentionBackend,
        *,
        block_size: int,
        max_num_seqs: int,
        seed: int = 0,
        on_logits: LogitsObserver | None = None,
    ) -> None:
        self._transformer = transformer
        self._attention = attention
        self._block_size = block_size
        self._seed = seed
        self._on_logits = on_logits
        self._newest = torch.zeros(max_num_seqs, dtype=torch.int64)  # by row: what it drew last

    def launch(self, step: Step) -> Flight:
        """Start a step's forward pass, with tokens that the step before sampled."""
        batch = build_batch(step, block_size=self._block_size)
        self._attention.begin(batch)
        with torch.inference_mode():
            token_ids = torch.from_numpy(batch.token_ids)
            if len(batch.pending):
                sampled = self._newest[torch.from_numpy(batch.pending_from)]
                token_ids[torch.from_numpy(batch.pending)] = sampled
            hidden = self._transformer.hidden(
                token_ids, torch.from_numpy(batch.positions), self._attention
            )
            if not batch.sampled:
                return Flight(step, batch, None)
            logits = self._transformer.logits(hidden[torch.from_numpy(batch.sample_rows)])
        return Flight(step, batch, logits)

    def sample(self, flight: Flight) -> None:
        """Draw the tokens of a launched step."""
        batch, logits = flight.batch, flight.logits
        if logits is None:
            return
        if self._on_logits is not None:
            self._on_logits([entry.sequence for entry in batch.sampled], logits)
        with torch.inference_mode():
            flight.tokens = sample(
                logits, [self._draw(entry) for entry in batch.sampled]
            ).host_tokens()
        rows = torch.tensor([entry.sequence.row for entry in batch.sampled])
        self._newest[rows] = torch.tensor([token or 0 for token in flight.tokens])

    def collect(self, flight: Flight) -> list[tuple[Scheduled, int | None]]:
        """The tokens of a sampled step, in the order of `batch.sampled`.

        `None` stands for a token that could not be sampled because logits were not numbers.
        A sequence that asked for no output is not among them.
        """
        return list(zip(flight.batch.sampled, flight.tokens, strict=True))

    def _draw(self, entry: Scheduled) -> Draw:
        sequence = entry.sequence
        seed = sequence.params.seed
        if seed is None:
            # Apart from each other, and from the seeds that callers choose.
            seed = (self._seed + 1) * 0x9E3779B97F4A7C15 + sequence.arrival
        return Draw(sequence.params, seed & 0xFFFFFFFFFFFFFFFF, entry.output_index)
