"""Steps of decodes alone, recorded once for each of a few sizes: launching them costs little."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..attention.backend import AttentionBackend
from ..attention.batch import Batch
from ..kernels.draw import Draw
from ..kernels.packed_draws import PackedDraws, draw_params, greedy_params
from ..kernels.sampler import Sampled
from ..kernels.sampling import draw_tokens
from ..kernels.transfer import Fetched, fill
from ..models.transformer import Transformer

__all__ = ["Capture", "CudaCapture", "DecodeGraphs"]

_log = logging.getLogger(__name__)


class Capture(Protocol):
    """Records what a function launches."""

    def __call__(self, run: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        """How to launch it again, and the tensor that every launch writes its result to."""
        ...


class CudaCapture:
    """CUDA graphs, which share their memory: one runs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        # One for all: cuBLAS keeps memory for each stream that it ever ran on.
        self._aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has no types here

    def __call__(self, run: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        """Run it once aside, so that all it needs is made and compiled, then record it."""
        self._aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._aside):
            run()
        torch.cuda.current_stream().wait_stream(self._aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._aside):
            result = run()
        return graph.replay, result


@dataclass(frozen=True, slots=True)
class _Recorded:
    forward: Callable[[], object]
    logits: Tensor  # [size, vocab_size]
    draw: dict[bool, tuple[Callable[[], object], Tensor]]  # by whether all rows are greedy


class DecodeGraphs:
    """Forward passes of decodes and draws from their logits, for 1, 2, 4 and every 8 sequences.

    A batch runs in the smallest that holds it, with sequences of no token beside its own.

    Args:
        newest: By `Sequence.row`, the token that was drawn last; one more place than there are
            rows, for what no sequence drew.
        max_blocks: KV blocks that one sequence may have.
        capture: Records launches.
        sizes: Of the batches; `None`: all that are worth it.
    """

    def __init__(
        self,
        transformer: Transformer,
        attention: AttentionBackend,
        newest: Tensor,
        *,
        max_blocks: int,
        capture: Capture,
        sizes: Sequence[int] | None = None,
    ) -> None:
        self._transformer, self._attention, self._newest = transformer, attention, newest
        most = len(newest) - 1
        self._token_ids, self._positions = (newest.new_zeros(most) for _ in range(2))
        self._rows = newest.new_full((most,), most)
        self._params = torch.from_numpy(greedy_params(most)).to(newest.device)
        # One for all sizes: each graph's own would be kept, which is gigabytes for all of them.
        vocab_size = transformer.config.vocab_size
        self._logits = newest.new_zeros((most, vocab_size), dtype=torch.float32)
        sizes = sizes or [*(size for size in (1, 2, 4) if size < most), *range(8, most, 8), most]
        self._recorded: dict[int, _Recorded] = {}
        begun = time.monotonic()
        for size in reversed(sizes):  # the largest first: the others fit into its memory
            self._recorded[size] = self._record(size, max_blocks, capture)
        took = time.monotonic() - begun
        _log.info("recorded steps of up to %d sequences in %.1f s", most, took)

    def size_of(self, batch: Batch) -> int | None:
        """The recorded size that runs a batch; `None`: it is of other work than decodes."""
        num_seqs = len(batch.rows)
        if not num_seqs == batch.num_decodes == len(batch.sampled):
            return None
        return min((size for size in self._recorded if size >= num_seqs), default=None)

    def forward(self, batch: Batch, size: int) -> Tensor:
        """Logits of a batch's sequences, which stay until the next call."""
        padded = batch.padded(size)
        self._attention.begin(padded)
        fill(self._token_ids, padded.token_ids)
        fill(self._positions, padded.positions)
        recorded = self._recorded[size]
        recorded.forward()
        return recorded.logits[: len(batch.rows)]

    def sample(self, logits: Tensor, batch: Batch, size: int, draws: Sequence[Draw]) -> Sampled:
        """Draw from all rows of what `forward` gave for a batch; no draw has a rule."""
        params = draw_params(draws, self._transformer.config.vocab_size)
        most, missing = len(self._newest) - 1, size - len(draws)
        fill(self._params, np.concatenate((params, greedy_params(missing))))
        fill(self._rows, np.concatenate((batch.rows, np.full(missing, most))))
        draw, drawn = self._recorded[size].draw[all(draw.is_greedy for draw in draws)]
        draw()
        tokens = drawn[: len(draws)]
        return Sampled(tokens, logits, draws, Fetched(tokens))

    def _record(self, size: int, max_blocks: int, capture: Capture) -> _Recorded:
        self._attention.begin(Batch.empty(max_blocks).padded(size))
        forward, logits = capture(partial(self._forward, size))
        draw = {
            is_greedy: capture(partial(self._draw, logits, is_greedy=is_greedy))
            for is_greedy in (True, False)
        }
        return _Recorded(forward, logits, draw)

    def _forward(self, size: int) -> Tensor:
        transformer = self._transformer
        with torch.inference_mode():
            hidden = transformer.hidden(
                self._token_ids[:size],
                self._positions[:size],
                self._attention,
                newest=self._newest,
            )
            return transformer.logits(hidden, out=self._logits[:size])

    def _draw(self, logits: Tensor, *, is_greedy: bool) -> Tensor:
        size = len(logits)
        with torch.inference_mode():
            packed = PackedDraws(self._params[:size], is_greedy)
            tokens = draw_tokens(logits, packed)
            self._newest.index_copy_(0, self._rows[:size], tokens)
            return tokens
