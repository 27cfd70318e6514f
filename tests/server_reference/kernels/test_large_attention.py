"""Offsets beyond 32 bits: the memory is asked for, and all but a little never touched."""

from __future__ import annotations

import pytest
import torch

import tests.server_reference.kernels.interpreted  # noqa: F401  (before triton is imported)

from server_reference.kernels.attention import paged_attention, split_parts  # isort: skip
from .paged_inputs import Split, tiles  # isort: skip

HEAD_DIM = 256
BEYOND = 2**32 // (16 * HEAD_DIM) + 1  # a block of 16 tokens with one head; slots are unsigned
INT32 = {"dtype": torch.int32}


@pytest.mark.parametrize("is_split", [False, True], ids=["", "split"])
def test_a_cache_may_have_more_elements_than_32_bits_count(is_split: bool) -> None:
    k, v = (torch.empty(BEYOND + 1, 16, 1, HEAD_DIM, dtype=torch.float8_e4m3fn) for _ in range(2))
    k[BEYOND], v[BEYOND] = torch.ones(16, 1, HEAD_DIM), torch.full((16, 1, HEAD_DIM), 3.0)
    out = torch.full((1, 1, HEAD_DIM), torch.nan)

    paged_attention(
        torch.ones(1, 1, HEAD_DIM),
        k,
        v,
        torch.tensor([[BEYOND]], **INT32),
        torch.tensor([0, 1], **INT32),
        torch.tensor([9], **INT32),
        out=out,
        scale=1.0,
        num_decodes=1,
        max_query_len=1,
        tiles=tiles(16),
        split=Split(split_parts(1, 1, HEAD_DIM, 2, "cpu")) if is_split else None,
    )

    assert (out == 3.0).all()


@pytest.mark.parametrize("num_decodes", [3, 0], ids=["decodes", "prompts"])
@pytest.mark.parametrize("is_split", [False, True], ids=["", "split"])
def test_tokens_may_lie_further_apart_than_32_bits_count(is_split: bool, num_decodes: int) -> None:
    apart, at = 2**30, torch.arange(3)
    memory = torch.empty(2 * apart + 64, dtype=torch.float16)
    q = memory.as_strided((3, 1, 32), (apart, 32, 1))
    out = memory[32:].as_strided((3, 1, 32), (apart, 32, 1))
    q.fill_(1.0)
    values = torch.arange(1.0, 4.0).half()[:, None, None, None].expand(3, 16, 1, 32).contiguous()

    paged_attention(
        q,
        torch.ones(3, 16, 1, 32).half(),
        values,
        at[:, None].int(),
        torch.tensor([0, 1, 2, 3], **INT32),
        torch.tensor([16, 5, 9], **INT32),
        out=out,
        scale=1.0,
        num_decodes=num_decodes,
        max_query_len=1,
        tiles=tiles(16),
        split=Split(split_parts(3, 1, 32, 2, "cpu")) if is_split else None,
    )

    assert out[:, 0, 0].tolist() == [1.0, 2.0, 3.0]
