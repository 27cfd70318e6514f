"""Batches for paged attention in Triton's interpreter; NaN wherever nothing may be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from server_reference.kernels.attention import Split, paged_attention, split_parts
from server_reference.kernels.attention_tiles import Tile, Tiles
from server_reference.kernels.reference.attention import paged_attention as reference

from .interpreted import guarded, is_intact

__all__ = ["PagedBatch", "Split", "decodes", "paged_batch", "split_parts", "tiles"]


@dataclass
class PagedBatch:
    """Inputs of a step, the ordinary ones; what a test is about, it passes."""

    inputs: dict[str, Tensor]
    num_decodes: int
    max_query_len: int
    options: dict[str, Any] = field(default_factory=dict)

    def launch(self, out: Tensor, **changes: Any) -> None:
        given = {
            "out": out,
            "scale": self.q.shape[-1] ** -0.5,
            "num_decodes": self.num_decodes,
            "max_query_len": self.max_query_len,
        }
        paged_attention(**self.inputs, **(given | self.options | changes))

    def attend(self, **changes: Any) -> Tensor:
        """What the kernel writes over NaN, and nowhere else."""
        out = guarded(torch.full(self.q.shape, torch.nan, dtype=self.q.dtype))
        self.launch(out, **changes)
        assert is_intact(out)
        return out

    def expected(self) -> Tensor:
        return reference(**self.inputs, **({"scale": self.q.shape[2] ** -0.5} | self.options))

    @property
    def q(self) -> Tensor:
        return self.inputs["q"]

    def assert_right(self, **changes: Any) -> None:
        """The kernel's output, against the twin's in float64."""
        rtol, atol = _TOLERANCES[self.q.dtype]
        out = self.attend(**changes).double()
        torch.testing.assert_close(out, self.expected(), rtol=rtol, atol=atol)

    def split(self, num_splits: int, tokens: int = 0) -> Split:
        """Room for so many parts of each decode, all NaN."""
        _, num_q_heads, head_dim = self.q.shape
        parts = split_parts(max(1, self.num_decodes), num_q_heads, head_dim, num_splits, "cpu")
        return Split(guarded(parts.fill_(torch.nan)), tokens)


_TOLERANCES = {
    torch.float32: (1e-5, 3e-6),
    torch.float16: (2e-3, 1e-3),  # weights are rounded to 11 bits before they meet values
    torch.bfloat16: (2**-7, 1e-5),  # computed in fp32; the interpreter cuts off what is too long
}


def tiles(keys: int, rows: int = 64) -> Tiles:
    return Tiles(Tile(16, keys, 1, 1), Tile(rows, keys, 1, 1))


def decodes(*context_lens: int) -> list[tuple[int, int]]:
    return [(1, context_len) for context_len in context_lens]


def paged_batch(
    lens: Sequence[tuple[int, int]],
    *,
    heads: tuple[int, int] = (4, 2),
    head_dim: int = 16,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    kv_dtype: torch.dtype | None = None,
    amplitude: float = 1.0,
    seed: int = 0,
    **options: Any,
) -> PagedBatch:
    """A step of sequences with `(query_len, context_len)`, decodes first, in scattered blocks.

    Slots past a sequence's end are NaN, and table entries past its last block lead to NaN.
    """
    generator = torch.Generator().manual_seed(seed)
    num_blocks = [-(-context_len // block_size) for _, context_len in lens]
    order = torch.randperm(sum(num_blocks), generator=generator)
    table = torch.full((len(lens), max(num_blocks) + 1), sum(num_blocks))
    shape = (sum(num_blocks) + 1, block_size, heads[1], head_dim)
    k, v = torch.full((2, *shape), torch.nan)
    for seq, (blocks, (_, context_len)) in enumerate(
        zip(order.split(num_blocks), lens, strict=True)
    ):
        table[seq, : len(blocks)] = blocks
        at = torch.arange(context_len)
        slots = blocks[at // block_size] * block_size + at % block_size
        k.flatten(0, 1)[slots] = torch.randn((context_len, *shape[2:]), generator=generator)
        v.flatten(0, 1)[slots] = torch.randn((context_len, *shape[2:]), generator=generator)
    query_lens = [query_len for query_len, _ in lens]
    q = torch.randn((sum(query_lens), heads[0], head_dim), generator=generator) * amplitude
    inputs = {
        "q": q.to(dtype),
        "k_cache": k.to(kv_dtype or dtype),
        "v_cache": v.to(kv_dtype or dtype),
        "block_table": table.int(),
        "query_start": torch.tensor([0, *query_lens]).cumsum(0).int(),
        "context_lens": torch.tensor([context_len for _, context_len in lens]).int(),
    }
    num_decodes = next((n for n, length in enumerate(query_lens) if length > 1), len(lens))
    given = {name: guarded(tensor) for name, tensor in inputs.items()}
    return PagedBatch(given, num_decodes, max(1, *query_lens), options)
