"""Turn queries and keys by their positions, and store keys and values in their slots."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arguments import FLOATS, check_scales, check_tensor
from .launch import Configuration, launch

__all__ = ["rotate_and_store"]

_LEAST_GROUP = 4
"""Query heads of a KV head: one compiled kernel is for all groups up to it."""
_VALUES_PER_WARP = 1024
"""Of the heads that one program turns. Model: one warp, as a second one would leave two bytes a
thread of a key; from 32 values a thread on registers run short."""


def rotate_and_store(
    qkv: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    *,
    slots: Tensor,
    cos: Tensor,
    sin: Tensor,
    num_q_heads: int,
    bias: Tensor | None = None,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    eps: float = 0.0,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> Tensor:
    """Finish what a layer's attention reads: rotated queries, and keys and values in the cache.

    Args:
        qkv: Heads of queries, keys and values, `[num_tokens, (num_q_heads + 2 * num_kv_heads)
            * head_dim]`, fp16, bf16 or fp32, contiguous.
        k_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`, `qkv`'s dtype or fp8 e4m3,
            contiguous; written.
        v_cache: Like `k_cache`.
        slots: `[num_tokens]`, int64, contiguous: where each key and value goes; -1: nowhere.
        cos: Of each token's position, `[num_tokens, 1, head_dim]`, fp32, contiguous, as
            `rope.rotations` makes them.
        sin: Likewise.
        bias: Added to every row of `qkv` first, of its dtype, contiguous; `None`: nothing.
        q_norm: `[head_dim]`, fp32, contiguous: each head of queries is normalised before it
            turns, as `norms.add_and_normalise` does with this weight; `None`: not so.
        k_norm: Likewise, of keys; there must be both or none.
        eps: Of these norms.
        k_scale: What an fp8 cache holds is a key divided by it; beyond ±448 it saturates.
        v_scale: Likewise, of values.

    Returns:
        The queries, `[num_tokens, num_q_heads, head_dim]`, `qkv`'s dtype, contiguous.

    Raises:
        ValueError: A shape, dtype, stride or scale is not as above.

    Cost:
        Bound by memory: reads `qkv` once and writes as much, in fp8 half of the keys and values;
        the angles, 4 * `head_dim` bytes for each token and KV head, come from the cache of the
        chip.

    Source:
        Su et al., "RoFormer", 2021, section 3.4.2; the number format is OCP's "8-bit Floating
        Point Specification", 2023.
    """
    _check(qkv, k_cache, v_cache, slots, cos, sin, num_q_heads)
    check_scales(k_scale=k_scale, v_scale=v_scale)
    num_kv_heads, head_dim = k_cache.shape[2:]
    _check_weights(qkv, head_dim, bias, q_norm, k_norm)
    q = qkv.new_empty(len(qkv), num_q_heads, head_dim)
    caches = [k_cache, v_cache]
    is_fp8 = k_cache.dtype == torch.float8_e4m3fn
    if is_fp8:
        caches = [cache.view(torch.uint8) for cache in caches]
    weights, places = (bias, q_norm, k_norm), (slots, cos, sin)
    group = num_q_heads // num_kv_heads
    launch(
        _rotary_kernel,
        (len(qkv), num_kv_heads),
        (q, *caches, qkv, *weights, *places, group, head_dim * eps, 1.0 / k_scale, 1.0 / v_scale),
        _configuration(group, head_dim, is_fp8),
    )
    return q


def _configuration(group: int, head_dim: int, is_fp8: bool) -> Configuration:
    block = max(triton.next_power_of_2(group), _LEAST_GROUP)
    values = block * triton.next_power_of_2(head_dim)
    return Configuration(
        constants=(("BLOCK_G", block), ("HEAD_DIM", head_dim), ("FP8", is_fp8)),
        num_warps=min(max(values // _VALUES_PER_WARP, 1), 4),
    )


def _check(
    qkv: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    cos: Tensor,
    sin: Tensor,
    num_q_heads: int,
) -> None:
    check_tensor("k_cache", k_cache, (None,) * 4, qkv.dtype, torch.float8_e4m3fn)
    check_tensor("v_cache", v_cache, (*k_cache.shape,), k_cache.dtype)
    num_kv_heads, head_dim = k_cache.shape[2:]
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim must be even, as a head turns in pairs, not {head_dim}")
    if num_kv_heads < 1 or num_q_heads < 1 or num_q_heads % num_kv_heads:
        raise ValueError(
            f"num_q_heads ({num_q_heads}) must be a multiple of num_kv_heads ({num_kv_heads}): "
            f"each KV head serves a whole group of query heads"
        )
    width = (num_q_heads + 2 * num_kv_heads) * head_dim
    check_tensor("qkv", qkv, (None, width), *FLOATS)
    check_tensor("slots", slots, (len(qkv),), torch.int64)
    for name, table in (("cos", cos), ("sin", sin)):
        check_tensor(name, table, (len(qkv), 1, head_dim), torch.float32)


def _check_weights(
    qkv: Tensor, head_dim: int, bias: Tensor | None, q_norm: Tensor | None, k_norm: Tensor | None
) -> None:
    if bias is not None:
        check_tensor("bias", bias, (qkv.shape[1],), qkv.dtype)
    if (q_norm is None) != (k_norm is None):
        raise ValueError("q_norm and k_norm go together: pass both, or none")
    for name, norm in (("q_norm", q_norm), ("k_norm", k_norm)):
        if norm is not None:
            check_tensor(name, norm, (head_dim,), torch.float32)


@triton.jit(do_not_specialize=["group"])
def _rotary_kernel(
    q_ptr,  # [num_tokens, num_q_heads, head_dim]
    k_cache_ptr,  # [num_slots, num_kv_heads, head_dim]
    v_cache_ptr,  # like k_cache_ptr
    qkv_ptr,  # [num_tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]
    bias_ptr,  # [(num_q_heads + 2 * num_kv_heads) * head_dim], or None
    q_norm_ptr,  # [head_dim], or None
    k_norm_ptr,  # [head_dim], or None
    slots_ptr,  # [num_tokens]
    cos_ptr,  # [num_tokens, head_dim]
    sin_ptr,  # [num_tokens, head_dim]
    group,  # query heads per KV head
    least,  # added to the sum of a head's squares
    k_factor,
    v_factor,
    BLOCK_G: tl.constexpr,  # at least group
    HEAD_DIM: tl.constexpr,
    FP8: tl.constexpr,
):
    # One program per (token, KV head). Heads are in halves: (i, i + head_dim / 2) turn together.
    token = tl.program_id(0).to(tl.int64)
    kv_head, num_kv_heads = tl.program_id(1), tl.num_programs(1)
    row = qkv_ptr + token * (group + 2) * num_kv_heads * HEAD_DIM
    dims, queries = _halves(HEAD_DIM), tl.arange(0, BLOCK_G)
    q_heads = (kv_head * group + queries)[:, None]  # [BLOCK_G, 1]
    mask = (queries < group)[:, None] & (dims < HEAD_DIM // 2)
    cos, sin = _angles(cos_ptr, sin_ptr, token, dims, HEAD_DIM)
    low, high = _turned(row, bias_ptr, q_norm_ptr, q_heads, dims, mask, cos, sin, least, HEAD_DIM)
    rows = q_ptr + (token * num_kv_heads * group + q_heads) * HEAD_DIM
    _store(rows, low, high, dims, mask, HEAD_DIM, False)
    slot = tl.load(slots_ptr + token)
    if slot < 0:
        return
    mask, place = dims < HEAD_DIM // 2, (slot * num_kv_heads + kv_head) * HEAD_DIM
    key = group * num_kv_heads + kv_head
    low, high = _turned(row, bias_ptr, k_norm_ptr, key, dims, mask, cos, sin, least, HEAD_DIM)
    _store(k_cache_ptr + place, low * k_factor, high * k_factor, dims, mask, HEAD_DIM, FP8)
    low, high = _load(row, bias_ptr, (group + 1) * num_kv_heads + kv_head, dims, mask, HEAD_DIM)
    _store(v_cache_ptr + place, low * v_factor, high * v_factor, dims, mask, HEAD_DIM, FP8)


@triton.jit
def _halves(HEAD_DIM: tl.constexpr):
    return tl.arange(0, triton.next_power_of_2(HEAD_DIM // 2))[None, :]  # [1, HALF]


@triton.jit
def _angles(cos_ptr, sin_ptr, token, dims, HEAD_DIM: tl.constexpr):
    """Cosines, and sines as they stand at the second place of each pair, `[1, HALF]`."""
    offs, inside = token * HEAD_DIM + dims, dims < HEAD_DIM // 2
    cos = tl.load(cos_ptr + offs, mask=inside, other=0.0)
    return cos, tl.load(sin_ptr + offs + HEAD_DIM // 2, mask=inside, other=0.0)


@triton.jit
def _load(row, bias_ptr, head, dims, mask, HEAD_DIM: tl.constexpr):
    """The first and the second half of heads, `[heads, HALF]` each, fp32."""
    offs = head * HEAD_DIM + dims
    low = tl.load(row + offs, mask=mask, other=0.0).to(tl.float32)
    high = tl.load(row + offs + HEAD_DIM // 2, mask=mask, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        low += tl.load(bias_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        high += tl.load(bias_ptr + offs + HEAD_DIM // 2, mask=mask, other=0.0).to(tl.float32)
    return low, high


@triton.jit
def _turned(row, bias_ptr, norm_ptr, head, dims, mask, cos, sin, least, HEAD_DIM: tl.constexpr):
    low, high = _load(row, bias_ptr, head, dims, mask, HEAD_DIM)
    if norm_ptr is not None:
        size = tl.sqrt(tl.sum(low * low + high * high, axis=1, keep_dims=True) + least)
        inside = dims < HEAD_DIM // 2
        low *= tl.load(norm_ptr + dims, mask=inside, other=0.0) / size
        high *= tl.load(norm_ptr + dims + HEAD_DIM // 2, mask=inside, other=0.0) / size
    return low * cos - high * sin, high * cos + low * sin


@triton.jit
def _store(rows, low, high, dims, mask, HEAD_DIM: tl.constexpr, FP8: tl.constexpr):
    if FP8:
        low, high = _e4m3(low), _e4m3(high)
    dtype = rows.dtype.element_ty
    tl.store(rows + dims, low.to(dtype), mask=mask)
    tl.store(rows + dims + HEAD_DIM // 2, high.to(dtype), mask=mask)


@triton.jit
def _e4m3(x):
    """The bits of numbers in fp8 e4m3, rounded to even, beyond ±448 that, NaN as NaN.

    By hand: the same on every chip, those without such numbers too.
    """
    bits = x.to(tl.int32, bitcast=True)
    size = tl.minimum(tl.abs(x), 448.0)
    normal = size.to(tl.int32, bitcast=True)  # exponent from 127 on, and 23 bits, of which 3 stay
    normal = ((normal + 0x7FFFF + ((normal >> 20) & 1)) >> 20) - ((127 - 7) << 3)
    # Below 2^-6 there are steps of 2^-9, which is also the last bit of 2^14.
    subnormal = (size + 16384.0).to(tl.int32, bitcast=True) & 0xF
    code = tl.where(size < 2.0**-6, subnormal, normal)
    code = tl.where(x != x, 0x7F, code)
    return code | ((bits >> 24) & 0x80)
