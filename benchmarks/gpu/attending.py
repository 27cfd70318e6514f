"""Steps of sequences over scattered KV blocks: what attention is checked and timed with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from server_reference.kernels.attention import Split, paged_attention, split_parts
from server_reference.kernels.reference.attention import paged_attention as plain_attention
from server_reference.models.transformer import ModelConfig

from .cases import Case, Moved

__all__ = ["Step", "attention_cases", "scattered"]

_ALLOWED = {torch.float32: (1e-4, 1e-4), torch.bfloat16: (2**-6, 2**-6)}
"""Weights and results are rounded to 8 bits in bf16, and sums are of values around 1."""


@dataclass(frozen=True, slots=True)
class Step:
    """What `paged_attention` takes."""

    inputs: dict[str, Tensor]
    num_decodes: int
    max_query_len: int
    options: dict[str, Any]

    def attend(self, split: Split | None = None, out: Tensor | None = None) -> Tensor:
        out = torch.zeros_like(self.inputs["q"]) if out is None else out
        paged_attention(
            **self.inputs,
            **self.options,
            out=out,
            num_decodes=self.num_decodes,
            max_query_len=self.max_query_len,
            split=split,
        )
        return out

    def moved(self, to: Moved) -> Step:
        inputs = {name: to(one) for name, one in self.inputs.items()}
        return Step(inputs, self.num_decodes, self.max_query_len, self.options)

    def split(self, num_parts: int) -> Split:
        q = self.inputs["q"]
        return Split(split_parts(self.num_decodes, q.shape[1], q.shape[2], num_parts, q.device))


def scattered(
    config: ModelConfig,
    lens: Sequence[tuple[int, int]],
    *,
    dtype: torch.dtype,
    kv_dtype: torch.dtype | None = None,
    window: int | None = None,
    block_size: int = 16,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Step:
    """Of sequences with `(query_len, context_len)`, decodes first; unused slots are NaN."""
    chance = torch.Generator(device).manual_seed(seed)
    num_blocks = [-(-context // block_size) for _, context in lens]
    total = sum(num_blocks)
    order = torch.randperm(total, generator=chance, device=device)
    table = torch.full((len(lens), max(num_blocks)), total, device=device)
    shape = (total + 1, block_size, config.num_kv_heads, config.head_dim)
    caches = [torch.randn(shape, generator=chance, device=device, dtype=dtype) for _ in range(2)]
    for seq, blocks in enumerate(torch.split(order, num_blocks)):
        table[seq, : len(blocks)] = blocks
        used = (lens[seq][1] - 1) % block_size + 1
        for cache in caches:
            cache[blocks[-1], used:] = torch.nan
    for cache in caches:
        cache[total] = torch.nan
    query_lens = [query for query, _ in lens]
    rows = (sum(query_lens), config.num_q_heads, config.head_dim)
    inputs = {
        "q": torch.randn(rows, generator=chance, device=device, dtype=dtype),
        "k_cache": caches[0].to(kv_dtype or dtype),
        "v_cache": caches[1].to(kv_dtype or dtype),
        "block_table": table.int(),
        "query_start": torch.tensor([0, *query_lens]).cumsum(0).int().to(device),
        "context_lens": torch.tensor([context for _, context in lens]).int().to(device),
    }
    options = {
        "scale": config.attention_scale or config.head_dim**-0.5,
        "window": window,
        "soft_cap": config.attention_soft_cap,
    }
    num_decodes = sum(query == 1 for query in query_lens)
    return Step(inputs, num_decodes, max(query_lens), options)


def attention_cases(
    config: ModelConfig,
    dtype: torch.dtype,
    prompt: tuple[int, int],
    *,
    kv_dtype: torch.dtype | None = None,
) -> Iterator[Case]:
    """Of a step of decodes and prompts, and of decodes that are spread over programs.

    Args:
        prompt: Tokens of the longest prompt, and of the longest context.
    """
    query, context = prompt
    lens = [(1, 1), (1, 16), (1, 17), (1, context), (2, 2), (query, query), (query // 2, query + 9)]
    for window in dict.fromkeys(config.windows or (None,)):
        step = scattered(config, lens, dtype=dtype, kv_dtype=kv_dtype, window=window)
        for parts in (1, 5):
            names = [str(kv_dtype or dtype).removeprefix("torch.")]
            names += [f"window-{window}"] * (window is not None) + [f"{parts}-parts"] * (parts > 1)
            yield _case(step, "-".join(names), parts, _ALLOWED[dtype])


def _case(step: Step, name: str, parts: int, allowed: tuple[float, float]) -> Case:
    def run(to: Moved) -> list[Tensor]:
        own = step.moved(to)
        return [own.attend(own.split(parts) if parts > 1 else None)]

    def twin() -> list[Tensor]:
        return [plain_attention(**step.inputs, **step.options)]

    return Case("paged_attention", name, run, twin, [allowed])
