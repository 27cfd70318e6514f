"""Attend over paged keys and values on a GPU: decodes, prompts, and steps of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from .arguments import FLOATS, check_scales, check_tensor, form_of
from .attention_kernels import LOG2_E, PART_EXTRA, attention_kernel, merge_kernel
from .attention_tiles import Tile, Tiles, attention_tiles
from .launch import Configuration, chip_family, launch

__all__ = ["Split", "paged_attention", "split_parts"]

_FLOATS_OF_8_BITS = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)
_MAX_TILES = 65_535  # a grid's second dimension
_MERGE = Configuration(constants=(("BLOCK_D", 256), ("BLOCK_S", 16)))
"""One row for all heads: parts are few, and lanes of none cost nothing that memory does not."""


@dataclass(frozen=True, slots=True)
class Split:
    """How a decode is spread over several programs, for when there are few decodes.

    Args:
        parts: What the programs leave to be merged, from `split_parts`.
        tokens: Keys for each program, a multiple of the KV tile's. A sequence's result is
            then the same to the bit in any batch, with any number of parts. 0: each gets
            the same share of the context, whatever its length.
    """

    parts: Tensor
    tokens: int = 0


def split_parts(
    num_decodes: int, num_q_heads: int, head_dim: int, num_splits: int, device: torch.device | str
) -> Tensor:
    """Memory for `Split`: one serves all layers in turn, and every step up to so many decodes."""
    shape = (num_decodes, num_q_heads, num_splits, head_dim + PART_EXTRA.value)
    return torch.empty(shape, dtype=torch.float32, device=device)


def paged_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    query_start: Tensor,
    context_lens: Tensor,
    *,
    out: Tensor,
    scale: float,
    num_decodes: int,
    max_query_len: int,
    window: int | None = None,
    soft_cap: float | None = None,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    split: Split | None = None,
    tiles: Tiles | None = None,
) -> None:
    """Attend from each sequence's new tokens to all of its cached tokens, these included.

    Grouped-query attention: query head `h` reads KV head `h // (num_q_heads // num_kv_heads)`.
    Nothing is read back from the device, and the programs are counted from shapes alone: the
    launches can be captured in a graph, and replayed after the numbers in the tensors changed.
    There are two if some sequences are decodes and others are not, and one more for a `split`.

    Args:
        q: Queries, `[num_tokens, num_q_heads, head_dim]`, fp16, bf16 or fp32, sequence after
            sequence. Tokens may lie apart, by a multiple of 16 elements. `head_dim` is a
            multiple of 16 up to 256; it is computed as the next power of two.
        k_cache: Keys, `[num_blocks, block_size, num_kv_heads, head_dim]`, contiguous, in `q`'s
            dtype or fp8 (e4m3). Any `block_size`.
        v_cache: Values, like `k_cache`.
        block_table: KV block of every `block_size` tokens, `[num_seqs, max_blocks]`, int32.
            Entries past a sequence's last block are never read, nor slots past its last
            token, nor blocks that its window has left.
        query_start: First row of each sequence and the end, `[num_seqs + 1]`, int32. One
            without rows is skipped; so is what `q` has after the last.
        context_lens: Tokens in the cache, the new ones included, `[num_seqs]`, int32.
        out: Where to write, like `q`; rows of no sequence are left as they are.
        scale: Factor on the scores before the softmax, as a rule `head_dim**-0.5`.
        num_decodes: The first so many sequences have one token each, or none.
        max_query_len: No sequence after those has more tokens.
        window: Keys that a query sees, its own included; `None`: all before it.
        soft_cap: Scores are bent by a `tanh` to stay within plus and minus this.
        k_scale: What fp8 keys are to be multiplied with.
        v_scale: Likewise values.
        split: Spread each decode over several programs; see `best_splits` for how many.
        tiles: `None` takes those that `attention_tiles` has for the chip.

    Raises:
        ValueError: A shape, dtype, stride or number is not as above.

    Cost:
        Decodes are bound by memory: each cached key and value is read once,
        `2 * sum(context_lens) * num_kv_heads * head_dim` elements. Prompts are bound by
        arithmetic: 4 operations for each pair of a query and a key it sees, per query head and
        element of it; keys and values are read once per query tile, mostly from the L2 cache.
        Parts are written and read once: `head_dim + 16` fp32 per split and query head.

    Source:
        Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3
        (the running softmax); Dao et al., "FlashAttention", 2022, section 3.1 (its tiles);
        Kwon et al., "PagedAttention", 2023, section 4.1 (the block table); Dao et al.,
        "Flash-Decoding for long-context inference", 2023 (splits).
    """
    inputs = _Inputs(q, k_cache, v_cache, block_table, query_start, context_lens)
    _check(_query_faults(q, out))
    _check(_cache_faults(inputs))
    check_scales(scale=scale, k_scale=k_scale, v_scale=v_scale)
    _check(_number_faults(inputs, num_decodes, max_query_len, window, soft_cap))
    if tiles is None:
        tiles = attention_tiles(chip_family(q.device), q.shape[2], q.dtype, k_cache.dtype)
    group = q.shape[1] // k_cache.shape[2]
    upcast = q.device.type == "cpu" and q.dtype == torch.bfloat16  # the interpreter has it wrong
    model = _Model(q.shape[2], k_cache.shape[1], group, window or 0, soft_cap or 0.0, upcast)
    factors = (scale * k_scale * LOG2_E.value * (2 / soft_cap if soft_cap else 1), v_scale)
    if num_decodes > 0:
        _check(() if split is None else _split_faults(inputs, split, num_decodes, tiles.decode))
        _attend(inputs, out, model, tiles.decode, factors, range(num_decodes), 1, split)
    others = range(num_decodes, len(context_lens))
    if others:
        # As if none had one token: the kernel for decodes is compiled for other tiles.
        _attend(inputs, out, model, tiles.prefill, factors, others, max(max_query_len, 2), None)


class _Inputs(NamedTuple):
    q: Tensor
    k_cache: Tensor
    v_cache: Tensor
    block_table: Tensor
    query_start: Tensor
    context_lens: Tensor


class _Model(NamedTuple):
    """What the kernels are compiled with, whatever the tile."""

    head_dim: int
    block_size: int
    group: int
    window: int
    soft_cap: float
    upcast: bool


def _attend(
    inputs: _Inputs,
    out: Tensor,
    model: _Model,
    tile: Tile,
    factors: tuple[float, float],
    seqs: range,
    max_query_len: int,
    split: Split | None,
) -> None:
    """Attend for the sequences `seqs`, none of which has more than `max_query_len` tokens."""
    q, k_cache, _, block_table, query_start, context_lens = inputs
    tokens = max(tile.rows // model.group, 1)
    is_one_tile = max_query_len == 1
    num_tiles = len(seqs) if is_one_tile else len(q) // tokens + len(seqs)
    if num_tiles > _MAX_TILES:
        raise ValueError(
            f"{len(q):,} tokens of {len(seqs):,} sequences are {num_tiles:,} query tiles, over "
            f"{_MAX_TILES:,}; attend to fewer tokens at a time"
        )
    into = out if split is None else split.parts
    num_splits, share = (1, 0) if split is None else (split.parts.shape[2], split.tokens)
    strides = (block_table.stride(0), into.stride(0), q.stride(0))
    launch(
        attention_kernel,
        (k_cache.shape[2], num_tiles, num_splits),
        (into, *inputs, model.group, seqs.start, seqs.stop, *strides, *factors, share),
        _attention(model, tile, is_one_tile=is_one_tile, is_split=split is not None),
    )
    if split is not None:
        given = (num_splits, out.stride(0), factors[1], share, tile.keys, model.window)
        launch(
            merge_kernel,
            (q.shape[1], len(seqs)),
            (out, into, query_start, context_lens, *given, model.head_dim),
            _MERGE,
        )


@cache
def _attention(model: _Model, tile: Tile, *, is_one_tile: bool, is_split: bool) -> Configuration:
    rows = max(tile.rows, 1 << (model.group - 1).bit_length())
    constants = {
        "HEAD_DIM": model.head_dim,
        "BLOCK_SIZE": model.block_size,
        "BLOCK_M": rows,
        "BLOCK_N": tile.keys,
        "ONE_TILE": is_one_tile,
        "SPLIT": is_split,
        "WINDOW": model.window,
        "SOFT_CAP": model.soft_cap,
        "UPCAST": model.upcast,
    }
    return Configuration(
        constants=tuple(constants.items()), num_warps=tile.num_warps, num_stages=tile.num_stages
    )


def _check(faults: Iterable[str]) -> None:
    for fault in faults:
        raise ValueError(fault)


def _query_faults(q: Tensor, out: Tensor) -> Iterator[str]:
    for name, tensor in (("q", q), ("out", out)):
        if tensor.dim() != 3 or tensor.dtype not in FLOATS:
            yield f"{name} must be 3 dimensions of fp16, bf16 or fp32, not {form_of(tensor)}"
        if tensor.stride(2) != 1 or tensor.stride(1) != tensor.shape[2] or tensor.stride(0) % 16:
            yield (
                f"{name} must have its heads side by side and its tokens a multiple of 16 elements "
                f"apart; its strides are {tensor.stride()}"
            )
    if out.shape != q.shape or out.dtype != q.dtype:
        yield f"out must be like q, {form_of(q)}, not {form_of(out)}"
    if len(out) > 1 and out.stride(0) < out.stride(1) * out.shape[1]:
        yield f"out must have a place for each token; its strides are {out.stride()}"
    if q.shape[2] % 16 or not 16 <= q.shape[2] <= 256:
        yield f"head_dim must be a multiple of 16 up to 256, not {q.shape[2]}"


def _cache_faults(inputs: _Inputs) -> Iterator[str]:
    q, k_cache, v_cache, block_table, query_start, context_lens = inputs
    for name, part in (("k_cache", k_cache), ("v_cache", v_cache)):
        if part.dim() != 4 or part.shape[3] != q.shape[2] or not part.is_contiguous():
            yield (
                f"{name} must be contiguous, [num_blocks, block_size, num_kv_heads, "
                f"{q.shape[2]}], not {form_of(part)} with strides {part.stride()}"
            )
        if part.dtype not in (q.dtype, *_FLOATS_OF_8_BITS):
            yield f"{name} must hold q's {q.dtype} or fp8, not {part.dtype}"
    if v_cache.shape != k_cache.shape or v_cache.dtype != k_cache.dtype:
        yield f"v_cache must be like k_cache, {form_of(k_cache)}, not {form_of(v_cache)}"
    if not (q.shape[1] and k_cache.shape[2]) or q.shape[1] % k_cache.shape[2]:
        yield (
            f"num_q_heads ({q.shape[1]}) must be a multiple of num_kv_heads "
            f"({k_cache.shape[2]}): each KV head serves a whole group of query heads"
        )
    check_tensor("context_lens", context_lens, (None,), torch.int32)
    check_tensor("block_table", block_table, (len(context_lens), None), torch.int32)
    check_tensor("query_start", query_start, (len(context_lens) + 1,), torch.int32)


def _number_faults(
    inputs: _Inputs,
    num_decodes: int,
    max_query_len: int,
    window: int | None,
    soft_cap: float | None,
) -> Iterator[str]:
    if not 0 <= num_decodes <= len(inputs.context_lens):
        yield f"num_decodes must be 0 to {len(inputs.context_lens)} sequences, not {num_decodes}"
    if max_query_len < 1:
        yield f"max_query_len must be at least 1 token, not {max_query_len}"
    if window is not None and window < 1:
        yield f"window must be at least 1 token, not {window}; use None for all"
    if soft_cap is not None and not 0 < soft_cap < math.inf:
        yield f"soft_cap must be above 0 and finite, not {soft_cap}; use None for none"


def _split_faults(inputs: _Inputs, split: Split, num_decodes: int, tile: Tile) -> Iterator[str]:
    num_q_heads, head_dim = inputs.q.shape[1:]
    check_tensor("split.parts", split.parts, (None,) * 4, torch.float32)
    num_rows, parts_heads, num_splits, width = split.parts.shape
    if (
        num_rows < num_decodes
        or num_splits < 1
        or (parts_heads, width) != (num_q_heads, head_dim + PART_EXTRA.value)
    ):
        yield (
            f"split.parts is for {num_rows} decodes of {parts_heads} heads, not for {num_decodes} "
            f"of {num_q_heads}; make them with split_parts"
        )
    if split.tokens < 0 or split.tokens % tile.keys:
        yield f"split.tokens must be a multiple of {tile.keys} keys, not {split.tokens}"
    max_context = inputs.block_table.shape[1] * inputs.k_cache.shape[1]
    if 0 < split.tokens * num_splits < max_context:
        yield (
            f"{num_splits} splits of {split.tokens:,} tokens are fewer than the {max_context:,} "
            f"that block_table has room for; make split_parts for {-(-max_context // split.tokens)}"
        )
