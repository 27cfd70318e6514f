"""Attention over paged keys and values on a GPU: decodes, prompts, and what lies between."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from .attention_tiles import Tile, Tiles, attention_tiles
from .launch import Configuration, launch

__all__ = ["Split", "paged_attention", "split_parts"]

_LOWEST = tl.constexpr(-1e30)  # below every score, and not infinite: infinities subtract to NaN
_LOG2_E = tl.constexpr(1.4426950408889634)
_EXTRA = tl.constexpr(16)  # numbers after a part's sum: highest score, weight; rest for alignment


@triton.jit(do_not_specialize=["first_seq", "end_seq", "max_blocks", "split_tokens"])
def _attention_kernel(
    out_ptr,  # [num_tokens, num_q_heads, head_dim]; SPLIT: what `_merge_kernel` reads
    q_ptr,  # [num_tokens, num_q_heads, head_dim]
    k_cache_ptr,  # [num_blocks, block_size, num_kv_heads, head_dim]
    v_cache_ptr,  # like k_cache_ptr
    block_table_ptr,  # [num_seqs, max_blocks]
    query_start_ptr,  # [num_seqs + 1]
    context_lens_ptr,  # [num_seqs]
    first_seq,  # the launch is for the sequences from here
    end_seq,  # to here
    max_blocks,
    stride_out,  # elements from one token to the next
    stride_q,
    score_factor,  # see `_scores`
    value_factor,
    split_tokens,  # keys of a split; 0: an even share
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,  # tokens per KV block
    GROUP: tl.constexpr,  # query heads per KV head
    BLOCK_M: tl.constexpr,  # rows of a query tile
    BLOCK_N: tl.constexpr,  # keys of a KV tile
    ONE_TILE: tl.constexpr,  # a query tile holds all new tokens of any sequence
    SPLIT: tl.constexpr,
    WINDOW: tl.constexpr,  # keys that a query sees, its own included; 0: all
    SOFT_CAP: tl.constexpr,  # of the scores; 0: none
    UPCAST: tl.constexpr,  # to fp32 before anything is computed
):
    """One program per (KV head, query tile, split). Rows are tokens × heads of the group."""
    lens = (query_start_ptr, context_lens_ptr)
    seq, tile = _find_tile(lens, first_seq, end_seq, BLOCK_M // GROUP, ONE_TILE)
    span = _find_keys(tile, split_tokens, BLOCK_N, WINDOW)
    if span[1] >= span[3]:
        return
    q, rows = _load_queries(q_ptr, tile, stride_q, HEAD_DIM, GROUP, BLOCK_M, UPCAST)
    head = tl.program_id(0) * HEAD_DIM
    cache = (k_cache_ptr + head, v_cache_ptr + head, block_table_ptr + seq * max_blocks)
    state = _attend(
        q, rows[2], cache, span, score_factor, HEAD_DIM, BLOCK_SIZE, BLOCK_N, ONE_TILE, WINDOW, SOFT_CAP
    )
    _store(out_ptr, state, rows, stride_out, value_factor, HEAD_DIM, SPLIT)


@triton.jit
def _find_tile(lens, first_seq, end_seq, TOKENS: tl.constexpr, ONE_TILE: tl.constexpr):
    """A sequence, and of a tile of it: first token, its position, how many (0 or less: none)."""
    query_start_ptr, context_lens_ptr = lens
    # The longest contexts first, so that short ones fill up what they leave.
    tile = tl.num_programs(1) - 1 - tl.program_id(1)
    seq, begin = first_seq + tile, 0
    if not ONE_TILE:
        # The tiles of sequence i start at `tokens before it // TOKENS + i`: one too many at most.
        seq, stop = first_seq, end_seq
        zero = tl.load(query_start_ptr + first_seq)
        while stop - seq > 1:
            middle = (seq + stop) // 2
            tokens = tl.load(query_start_ptr + middle) - zero
            if tokens // TOKENS + middle - first_seq <= tile:
                seq = middle
            else:
                stop = middle
        tokens = tl.load(query_start_ptr + seq) - zero
        begin = (tile - (tokens // TOKENS + seq - first_seq)) * TOKENS
    start = tl.load(query_start_ptr + seq)
    query_len = tl.load(query_start_ptr + seq + 1) - start
    position = tl.load(context_lens_ptr + seq) - query_len + begin
    return seq, (start + begin, position, tl.minimum(query_len - begin, TOKENS))


@triton.jit
def _find_keys(tile, split_tokens, BLOCK_N: tl.constexpr, WINDOW: tl.constexpr):
    """The first key that a row sees; of this split, the begin, the end, and to where all see all."""
    _, position, num_tokens = tile
    low, base, share = _shares(
        position, position + num_tokens, split_tokens, tl.num_programs(2), BLOCK_N, WINDOW
    )
    begin = base + tl.program_id(2) * share
    end = tl.minimum(position + num_tokens, begin + share)
    whole = tl.maximum(begin, tl.minimum(end, position + 1) // BLOCK_N * BLOCK_N)
    return low, begin, whole, tl.where(num_tokens > 0, end, begin)


@triton.jit
def _shares(
    position, end, split_tokens, num_splits, BLOCK_N: tl.constexpr, WINDOW: tl.constexpr
):
    """The first key that is seen from `position`; where splits begin, and how long they are."""
    low = 0
    if WINDOW:
        low = tl.maximum(position - WINDOW + 1, 0)
    base = low // BLOCK_N * BLOCK_N
    share = split_tokens
    if split_tokens == 0:
        share = tl.cdiv(tl.cdiv(end - base, num_splits), BLOCK_N) * BLOCK_N
    return low, base, share


@triton.jit
def _load_queries(
    q_ptr,
    tile,
    stride_q,
    HEAD_DIM: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Queries `[BLOCK_M, head_dim]`; token, head and position of each row, and whether it is one.

    A row too many is zeros, at the position of the last.
    """
    token, position, num_tokens = tile
    rows = tl.arange(0, BLOCK_M)
    # int64: a large batch of many heads has over 2**31 elements.
    tokens = (token + rows // GROUP).to(tl.int64)
    heads = tl.program_id(0) * GROUP + rows % GROUP
    positions = position + tl.minimum(rows // GROUP, num_tokens - 1)
    is_real = rows // GROUP < num_tokens
    dims = tl.arange(0, triton.next_power_of_2(HEAD_DIM))
    pointers = q_ptr + (tokens * stride_q + heads * HEAD_DIM)[:, None] + dims[None, :]
    q = tl.load(pointers, mask=is_real[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)
    return q.to(tl.float32) if UPCAST else q, (tokens, heads, positions, is_real)


@triton.jit
def _attend(
    q,
    positions,
    cache,
    span,
    score_factor,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    ONE_TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
):
    """Weighted sum of values `[BLOCK_M, head_dim]`, highest score and sum of weights `[BLOCK_M]`."""
    low, begin, whole, end = span
    acc = tl.zeros(q.shape, dtype=tl.float32)
    top = tl.full([q.shape[0]], _LOWEST, dtype=tl.float32)
    mass = tl.zeros([q.shape[0]], dtype=tl.float32)
    keys = begin + tl.arange(0, BLOCK_N)
    state = (acc, top, mass, _load_blocks(cache, keys, (keys >= low) & (keys < end), BLOCK_SIZE))
    if not (ONE_TILE or WINDOW):
        state = _attend_tiles(
            state, q, positions, cache, (low, begin, whole, end), score_factor, HEAD_DIM, BLOCK_SIZE, BLOCK_N, False, WINDOW, SOFT_CAP,
        )
        begin = whole
    return _attend_tiles(
        state, q, positions, cache, (low, begin, end, end), score_factor, HEAD_DIM, BLOCK_SIZE, BLOCK_N, True, WINDOW, SOFT_CAP,
    )


@triton.jit
def _attend_tiles(
    state,
    q,
    positions,
    cache,
    span,
    score_factor,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
):
    acc, top, mass, blocks = state
    low, begin, stop, end = span
    for start in range(begin, stop, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        slots = blocks * BLOCK_SIZE + keys.to(tl.uint32) % BLOCK_SIZE
        is_read = keys < end
        if WINDOW:
            is_read &= keys >= low
        # A tile ahead: from a load in its own iteration, keys would wait for it, and the
        # pipeliner would keep no second buffer for them.
        blocks = _load_blocks(cache, keys + BLOCK_N, keys + BLOCK_N < end, BLOCK_SIZE)
        k = _load_tile(cache[0], slots, is_read, q, HEAD_DIM, MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        factor = score_factor
        if SOFT_CAP > 0:
            scores = 1.0 - 2.0 / (1.0 + tl.exp2(scores * score_factor))
            factor = SOFT_CAP * _LOG2_E
        if MASKED:
            is_seen = keys[None, :] <= positions[:, None]
            if WINDOW:
                is_seen &= keys[None, :] > positions[:, None] - WINDOW
            scores = tl.where(is_seen, scores, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, 1) * factor)
        weights = tl.exp2(scores * factor - new_top[:, None])
        fade = tl.exp2(top - new_top)
        mass = mass * fade + tl.sum(weights, 1)
        v = _load_tile(cache[1], slots, is_read, q, HEAD_DIM, MASKED)
        acc = tl.dot(weights.to(v.dtype), v, acc * fade[:, None], input_precision="ieee")
        top = new_top
    return acc, top, mass, blocks


@triton.jit
def _load_blocks(cache, keys, is_read, BLOCK_SIZE: tl.constexpr):
    return tl.load(cache[2] + keys.to(tl.uint32) // BLOCK_SIZE, mask=is_read, other=0)


@triton.jit
def _load_tile(cache_ptr, slots, is_read, q, HEAD_DIM: tl.constexpr, MASKED: tl.constexpr):
    """`[BLOCK_N, head_dim]` in `q`'s dtype; 0 for what is not read, whatever is there."""
    dims = tl.arange(0, q.shape[1])
    # int64: a cache has over 2**31 elements.
    offsets = slots.to(tl.int64) * (tl.num_programs(0) * HEAD_DIM)
    pointers = cache_ptr + offsets[:, None] + dims[None, :]
    if MASKED:
        tile = tl.load(pointers, mask=is_read[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)
    elif HEAD_DIM < q.shape[1]:
        tile = tl.load(pointers, mask=(dims < HEAD_DIM)[None, :], other=0.0)
    else:
        tile = tl.load(pointers)
    return tile.to(q.dtype)


@triton.jit
def _store(
    out_ptr,
    state,
    rows,
    stride_out,
    value_factor,
    HEAD_DIM: tl.constexpr,
    SPLIT: tl.constexpr,
):
    acc, top, mass, _ = state
    tokens, heads, _, is_real = rows
    dims = tl.arange(0, acc.shape[1])
    mask = is_real[:, None] & (dims < HEAD_DIM)[None, :]
    if SPLIT:
        parts = (heads * tl.num_programs(2) + tl.program_id(2)) * (HEAD_DIM + _EXTRA)
        pointers = out_ptr + tokens * stride_out + parts
        tl.store(pointers[:, None] + dims[None, :], acc, mask=mask)
        tl.store(pointers + HEAD_DIM, top, mask=is_real)
        tl.store(pointers + HEAD_DIM + 1, mass, mask=is_real)
    else:
        pointers = out_ptr + (tokens * stride_out + heads * HEAD_DIM)[:, None] + dims[None, :]
        tl.store(pointers, acc * (value_factor / mass)[:, None], mask=mask)


@triton.jit(do_not_specialize=["num_splits", "split_tokens"])
def _merge_kernel(
    out_ptr,  # [num_tokens, num_q_heads, head_dim]
    parts_ptr,  # [num_tokens, num_q_heads, num_splits, head_dim + _EXTRA]
    query_start_ptr,  # [num_seqs + 1]
    context_lens_ptr,  # [num_seqs]
    num_splits,
    stride_out,  # elements from one token to the next
    value_factor,
    split_tokens,  # as the parts were made with; so BLOCK_N and WINDOW
    HEAD_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_S: tl.constexpr,  # splits taken together
    WINDOW: tl.constexpr,
):
    """One program per (query head, sequence)."""
    seq, head = tl.program_id(1), tl.program_id(0)
    token = tl.load(query_start_ptr + seq).to(tl.int64)
    if tl.load(query_start_ptr + seq + 1) <= token:
        return
    end = tl.load(context_lens_ptr + seq)
    _, base, share = _shares(end - 1, end, split_tokens, num_splits, BLOCK_N, WINDOW)
    row_ptr = parts_ptr + (token * tl.num_programs(0) + head) * num_splits * (HEAD_DIM + _EXTRA)
    acc, mass = _merge(row_ptr, tl.cdiv(end - base, share), HEAD_DIM, BLOCK_S)
    dims = tl.arange(0, triton.next_power_of_2(HEAD_DIM))
    out_ptr += token * stride_out + head * HEAD_DIM
    tl.store(out_ptr + dims, acc * (value_factor / mass), mask=dims < HEAD_DIM)


@triton.jit
def _merge(row_ptr, num_parts, HEAD_DIM: tl.constexpr, BLOCK_S: tl.constexpr):
    """Weighted sum of values `[head_dim]` and sum of weights, in an order that is the row's own."""
    dims = tl.arange(0, triton.next_power_of_2(HEAD_DIM))
    acc = tl.zeros(dims.shape, dtype=tl.float32)
    top, mass = tl.full([1], _LOWEST, tl.float32), tl.zeros([1], tl.float32)
    for first in range(0, num_parts, BLOCK_S):
        parts = first + tl.arange(0, BLOCK_S)
        is_real = parts < num_parts
        pointers = row_ptr + parts * (HEAD_DIM + _EXTRA)
        tops = tl.load(pointers + HEAD_DIM, mask=is_real, other=_LOWEST)
        masses = tl.load(pointers + HEAD_DIM + 1, mask=is_real, other=0.0)
        mask = is_real[:, None] & (dims < HEAD_DIM)[None, :]
        sums = tl.load(pointers[:, None] + dims[None, :], mask=mask, other=0.0)  # [BLOCK_S, dims]
        new_top = tl.maximum(top, tl.max(tops, 0))
        weights, fade = tl.exp2(tops - new_top), tl.exp2(top - new_top)
        acc = acc * fade + tl.sum(sums * weights[:, None], 0)
        mass = mass * fade + tl.sum(masses * weights, 0)
        top = new_top
    return acc, mass


@dataclass(frozen=True, slots=True)
class Split:
    """Decodes in several programs each, for when there are few of them.

    Args:
        parts: Where the programs leave what they have, from `split_parts`.
        tokens: Keys of each program, a multiple of the KV tile's: a sequence's bits then do not
            depend on the batch, nor on how many parts there are. 0: as many as make the
            programs of a sequence equal.
    """

    parts: Tensor
    tokens: int = 0


def split_parts(
    num_decodes: int, num_q_heads: int, head_dim: int, num_splits: int, device: torch.device
) -> Tensor:
    """Memory for the parts of so many decodes; it serves every layer in turn."""
    shape = (num_decodes, num_q_heads, num_splits, head_dim + _EXTRA.value)
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
    """TODO"""
    num_seqs, num_kv_heads = len(context_lens), k_cache.shape[2]
    head_dim, group = q.shape[2], q.shape[1] // num_kv_heads
    if tiles is None:
        tiles = attention_tiles("", head_dim, q.dtype, k_cache.dtype)
    factor = scale * k_scale * _LOG2_E.value
    if soft_cap is not None:
        factor *= 2 / soft_cap
    model = dict(HEAD_DIM=head_dim, BLOCK_SIZE=k_cache.shape[1], GROUP=group, WINDOW=window or 0, SOFT_CAP=soft_cap or 0.0, UPCAST=q.device.type == "cpu" and q.dtype == torch.bfloat16)
    def start(first, end, tile, max_len, to, num_splits, split_tokens):
        rows = max(tile.rows, triton.next_power_of_2(group))
        one = max_len <= rows // group
        count = end - first if one else len(q) // (rows // group) + end - first
        launch(_attention_kernel, (num_kv_heads, count, num_splits),
          (to, q, k_cache, v_cache, block_table, query_start, context_lens, first, end, block_table.stride(0), to.stride(0), q.stride(0), factor, v_scale, split_tokens),
          Configuration(constants=tuple(dict(**model, BLOCK_M=rows, BLOCK_N=tile.keys, ONE_TILE=one, SPLIT=to is not out).items()), num_warps=tile.num_warps, num_stages=tile.num_stages))
    if num_decodes:
        if split is None:
            start(0, num_decodes, tiles.decode, 1, out, 1, 0)
        else:
            n = split.parts.shape[2]
            start(0, num_decodes, tiles.decode, 1, split.parts, n, split.tokens)
            launch(_merge_kernel, (q.shape[1], num_decodes), (out, split.parts, query_start, context_lens, n, out.stride(0), v_scale, split.tokens),
              Configuration(constants=tuple(dict(HEAD_DIM=head_dim, BLOCK_N=tiles.decode.keys, BLOCK_S=16, WINDOW=window or 0).items())))
    if num_seqs > num_decodes:
        start(num_decodes, num_seqs, tiles.prefill, max_query_len, out, 1, 0)
