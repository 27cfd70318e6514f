"""Kernels to compile, for the tests of how that is done; their rows are in `sample_rows`."""

from __future__ import annotations

import triton
import triton.language as tl

__all__: list[str] = []


@triton.jit(do_not_specialize=["n"])
def _product_kernel(
    out_ptr,  # [M, N]
    a_ptr,  # [n, M, K]
    b_ptr,  # [n, K, N]
    n,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    offs_m, offs_n, offs_k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(n):
        a = tl.load(a_ptr + i * M * K + offs_m[:, None] * K + offs_k[None, :])
        b = tl.load(b_ptr + i * K * N + offs_k[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def _scale_kernel(out_ptr, x_ptr, length, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < length)
    tl.store(out_ptr + offs, x * factor, mask=offs < length)
