"""Attention over paged keys and values, in Triton: one source for decodes and prompts.

`attention.py` says what it computes, and launches it.
"""

# mypy: disable-error-code="import-untyped,no-untyped-def,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["LOG2_E", "PART_EXTRA", "attention_kernel", "merge_kernel"]

LOG2_E = tl.constexpr(1.4426950408889634)
PART_EXTRA = tl.constexpr(16)
"""What a part has beyond its sum: highest score, sum of weights, and 14 to keep it aligned."""

_LOWEST = tl.constexpr(-1e30)  # below every score, and not infinite: infinities subtract to NaN


@triton.jit(do_not_specialize=["group", "first_seq", "end_seq", "max_blocks", "split_tokens"])
def attention_kernel(
    out_ptr,  # [num_tokens, num_q_heads, head_dim]; SPLIT: what `merge_kernel` reads
    q_ptr,  # [num_tokens, num_q_heads, head_dim]
    k_cache_ptr,  # [num_blocks, block_size, num_kv_heads, head_dim]
    v_cache_ptr,  # like k_cache_ptr
    block_table_ptr,  # [num_seqs, max_blocks]
    query_start_ptr,  # [num_seqs + 1]
    context_lens_ptr,  # [num_seqs]
    group,  # query heads per KV head
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
    seq, tile = _find_tile(lens, first_seq, end_seq, BLOCK_M // group, ONE_TILE)
    span = _find_keys(tile, split_tokens, BLOCK_N, WINDOW)
    if span[1] >= span[3]:
        return
    q, rows = _load_queries(q_ptr, tile, stride_q, group, HEAD_DIM, BLOCK_M, UPCAST)
    queries = (q, rows[2], score_factor)
    head = tl.program_id(0) * HEAD_DIM
    cache = (k_cache_ptr + head, v_cache_ptr + head, block_table_ptr + seq * max_blocks)
    state = _attend(queries, cache, span, HEAD_DIM, BLOCK_SIZE, BLOCK_N, ONE_TILE, WINDOW, SOFT_CAP)
    _store(out_ptr, state, rows, stride_out, value_factor, HEAD_DIM, SPLIT)


@triton.jit
def _find_tile(lens, first_seq, end_seq, most, ONE_TILE: tl.constexpr):
    """A sequence, and of a tile of it: first token, its position, how many (0 or less: none).

    A tile has `most` tokens at most.
    """
    query_start_ptr, context_lens_ptr = lens
    # The longest contexts first, so that short ones fill up what they leave.
    tile = tl.num_programs(1) - 1 - tl.program_id(1)
    seq, begin = first_seq + tile, 0
    if not ONE_TILE:
        # The tiles of sequence i start at `tokens before it // most + i`: one too many at most.
        seq, stop = first_seq, end_seq
        zero = tl.load(query_start_ptr + first_seq)
        while stop - seq > 1:
            middle = (seq + stop) // 2
            tokens = tl.load(query_start_ptr + middle) - zero
            if tokens // most + middle - first_seq <= tile:
                seq = middle
            else:
                stop = middle
        tokens = tl.load(query_start_ptr + seq) - zero
        begin = (tile - (tokens // most + seq - first_seq)) * most
    start = tl.load(query_start_ptr + seq)
    query_len = tl.load(query_start_ptr + seq + 1) - start
    position = tl.load(context_lens_ptr + seq) - query_len + begin
    return seq, (start + begin, position, tl.minimum(query_len - begin, most))


@triton.jit
def _find_keys(tile, split_tokens, BLOCK_N: tl.constexpr, WINDOW: tl.constexpr):
    """The first key that a row sees; where this split begins, all rows see all, it ends."""
    _, position, num_tokens = tile
    low, base, share = _shares(
        position, position + num_tokens, split_tokens, tl.num_programs(2), BLOCK_N, WINDOW
    )
    begin = base + tl.program_id(2) * share
    end = tl.minimum(position + num_tokens, begin + share)
    whole = tl.maximum(begin, tl.minimum(end, position + 1) // BLOCK_N * BLOCK_N)
    return low, begin, whole, tl.where(num_tokens > 0, end, begin)


@triton.jit
def _shares(position, end, split_tokens, num_splits, block, window):
    """The first key that is seen from `position`; where splits begin, and how long they are."""
    low = 0
    if window:
        low = tl.maximum(position - window + 1, 0)
    base = low // block * block
    share = split_tokens
    if split_tokens == 0:
        share = tl.cdiv(tl.cdiv(end - base, num_splits), block) * block
    return low, base, share


@triton.jit
def _load_queries(
    q_ptr,
    tile,
    stride_q,
    group,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Queries `[BLOCK_M, head_dim]`; token, head and position of each row, and whether it is one.

    A row too many is zeros, at the position of the last.
    """
    token, position, num_tokens = tile
    rows = tl.arange(0, BLOCK_M)
    # int64: a large batch of many heads has over 2**31 elements.
    tokens = (token + rows // group).to(tl.int64)
    heads = tl.program_id(0) * group + rows % group
    positions = position + tl.minimum(rows // group, num_tokens - 1)
    is_real = rows // group < num_tokens
    dims = tl.arange(0, triton.next_power_of_2(HEAD_DIM))
    pointers = q_ptr + (tokens * stride_q + heads * HEAD_DIM)[:, None] + dims[None, :]
    q = tl.load(pointers, mask=is_real[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)
    return q.to(tl.float32) if UPCAST else q, (tokens, heads, positions, is_real)


@triton.jit
def _attend(
    queries,
    cache,
    span,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    ONE_TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
):
    """Of each row: weighted sum of values, highest score in powers of 2, sum of weights."""
    low, begin, whole, end = span
    q = queries[0]
    acc = tl.zeros(q.shape, dtype=tl.float32)  # [BLOCK_M, head_dim]
    top = tl.full([q.shape[0]], _LOWEST, dtype=tl.float32)  # [BLOCK_M]
    mass = tl.zeros([q.shape[0]], dtype=tl.float32)  # [BLOCK_M]
    keys = begin + tl.arange(0, BLOCK_N)
    state = (acc, top, mass, _load_blocks(cache, keys, keys < end, BLOCK_SIZE))
    if not (ONE_TILE or WINDOW):
        state = _attend_tiles(
            state, queries, cache, span, HEAD_DIM, BLOCK_SIZE, BLOCK_N, False, WINDOW, SOFT_CAP
        )
        begin = whole
    span = (low, begin, end, end)
    return _attend_tiles(
        state, queries, cache, span, HEAD_DIM, BLOCK_SIZE, BLOCK_N, True, WINDOW, SOFT_CAP
    )


@triton.jit
def _attend_tiles(
    state,
    queries,
    cache,
    span,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
):
    """The state after the tiles of `span`; if not MASKED, each row sees all of their keys."""
    acc, top, mass, blocks = state
    low, begin, stop, end = span
    for start in range(begin, stop, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        is_read = (keys >= low) & (keys < end) if WINDOW else keys < end
        slots = blocks * BLOCK_SIZE + keys.to(tl.uint32) % BLOCK_SIZE
        # For the next tile: keys that hang on a load of their own iteration are not loaded
        # ahead of the arithmetic into a second buffer (triton-lang/triton#3100, #4721).
        blocks = _load_blocks(cache, keys + BLOCK_N, keys + BLOCK_N < end, BLOCK_SIZE)
        k = _load_tile(cache[0], slots, is_read, queries, HEAD_DIM, MASKED)
        scores, factor = _scores(k, keys, queries, MASKED, WINDOW, SOFT_CAP)  # [BLOCK_M, BLOCK_N]
        new_top = tl.maximum(top, tl.max(scores, 1) * factor)
        weights = tl.exp2(scores * factor - new_top[:, None])
        fade = tl.exp2(top - new_top)
        mass = mass * fade + tl.sum(weights, 1)
        v = _load_tile(cache[1], slots, is_read, queries, HEAD_DIM, MASKED)
        acc = tl.dot(weights.to(v.dtype), v, acc * fade[:, None], input_precision="ieee")
        top = new_top
    return acc, top, mass, blocks


@triton.jit
def _scores(k, keys, queries, MASKED: tl.constexpr, WINDOW: tl.constexpr, SOFT_CAP: tl.constexpr):
    """Scores of rows and keys, and what makes them powers of 2; minus infinity if not seen."""
    q, positions, factor = queries
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    if SOFT_CAP > 0:
        powers = tl.minimum(scores * factor, 126.0, propagate_nan=tl.PropagateNan.ALL)
        scores = 1.0 - 2.0 / (1.0 + tl.exp2(powers))  # tanh; a power of 128 would be infinite
        factor = SOFT_CAP * LOG2_E
    if MASKED:
        is_seen = keys[None, :] <= positions[:, None]
        if WINDOW:
            is_seen &= keys[None, :] > positions[:, None] - WINDOW
        scores = tl.where(is_seen, scores, -float("inf"))
    return scores, factor


@triton.jit
def _load_blocks(cache, keys, is_read, BLOCK_SIZE: tl.constexpr):
    return tl.load(cache[2] + keys.to(tl.uint32) // BLOCK_SIZE, mask=is_read, other=0)


@triton.jit
def _load_tile(cache_ptr, slots, is_read, queries, HEAD_DIM: tl.constexpr, MASKED: tl.constexpr):
    """`[BLOCK_N, head_dim]` in the queries' dtype; 0 for what is not read, whatever is there."""
    q = queries[0]
    dims = tl.arange(0, q.shape[1])
    # int64: a cache has over 2**31 elements.
    offsets = slots.to(tl.int64) * (tl.num_programs(0) * HEAD_DIM)
    pointers = cache_ptr + offsets[:, None] + dims[None, :]
    if MASKED:
        tile = tl.load(pointers, mask=is_read[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)
    elif q.shape[1] > HEAD_DIM:
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
        parts = (heads * tl.num_programs(2) + tl.program_id(2)) * (HEAD_DIM + PART_EXTRA)
        pointers = out_ptr + tokens * stride_out + parts
        tl.store(pointers[:, None] + dims[None, :], acc, mask=mask)
        tl.store(pointers + HEAD_DIM, top, mask=is_real)
        tl.store(pointers + HEAD_DIM + 1, mass, mask=is_real)
    else:
        pointers = out_ptr + (tokens * stride_out + heads * HEAD_DIM)[:, None] + dims[None, :]
        tl.store(pointers, acc * (value_factor / mass)[:, None], mask=mask)


@triton.jit(do_not_specialize=["num_splits", "split_tokens", "block", "window", "head_dim"])
def merge_kernel(
    out_ptr,  # [num_tokens, num_q_heads, head_dim]
    parts_ptr,  # [num_tokens, num_q_heads, num_splits, head_dim + PART_EXTRA]
    query_start_ptr,  # [num_seqs + 1]
    context_lens_ptr,  # [num_seqs]
    num_splits,
    stride_out,  # elements from one token to the next
    value_factor,
    split_tokens,  # as the parts were made with, and what follows
    block,  # keys of a KV tile
    window,
    head_dim,
    BLOCK_D: tl.constexpr,  # at least head_dim
    BLOCK_S: tl.constexpr,  # splits taken together
):
    """One program per (query head, sequence)."""
    seq, head = tl.program_id(1), tl.program_id(0)
    token = tl.load(query_start_ptr + seq).to(tl.int64)
    if tl.load(query_start_ptr + seq + 1) <= token:
        return
    end = tl.load(context_lens_ptr + seq)
    _, base, share = _shares(end - 1, end, split_tokens, num_splits, block, window)
    row_ptr = parts_ptr + (token * tl.num_programs(0) + head) * num_splits * (head_dim + PART_EXTRA)
    acc, mass = _merge(row_ptr, tl.cdiv(end - base, share), head_dim, BLOCK_D, BLOCK_S)
    dims = tl.arange(0, BLOCK_D)
    out_ptr += token * stride_out + head * head_dim
    tl.store(out_ptr + dims, acc * (value_factor / mass), mask=dims < head_dim)


@triton.jit
def _merge(row_ptr, num_parts, head_dim, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr):
    """Weighted sum of values `[head_dim]` and sum of weights, in an order that is the row's own."""
    dims = tl.arange(0, BLOCK_D)
    acc = tl.zeros(dims.shape, dtype=tl.float32)
    top, mass = tl.full([1], _LOWEST, tl.float32), tl.zeros([1], tl.float32)
    for first in range(0, num_parts, BLOCK_S):
        parts = first + tl.arange(0, BLOCK_S)
        is_real = parts < num_parts
        pointers = row_ptr + parts * (head_dim + PART_EXTRA)
        tops = tl.load(pointers + head_dim, mask=is_real, other=_LOWEST)
        masses = tl.load(pointers + head_dim + 1, mask=is_real, other=0.0)
        mask = is_real[:, None] & (dims < head_dim)[None, :]
        sums = tl.load(pointers[:, None] + dims[None, :], mask=mask, other=0.0)  # [BLOCK_S, dims]
        new_top = tl.maximum(top, tl.max(tops, 0))
        weights, fade = tl.exp2(tops - new_top), tl.exp2(top - new_top)
        acc = acc * fade + tl.sum(sums * weights[:, None], 0)
        mass = mass * fade + tl.sum(masses * weights, 0)
        top = new_top
    return acc, mass
