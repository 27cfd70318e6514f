"""The stream's first rows: embeddings of tokens, some of which only the device knows yet."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arguments import FLOATS, check_tensor
from .launch import Configuration, launch

__all__ = ["embed"]

_BLOCK = 1024
"""Model: 8 values for each of 128 threads, one load of 16 bytes."""


def embed(
    token_ids: Tensor, table: Tensor, *, scale: float = 1.0, newest: Tensor | None = None
) -> Tensor:
    """Look up the embeddings of a batch's tokens.

    Args:
        token_ids: `[num_tokens]`, int64, contiguous, below `vocab_size`. With `newest`, a
            negative one, `-1 - row`, stands for `newest[row]`: what was drawn in a step whose
            tokens the host has not seen.
        table: `[vocab_size, hidden]`, fp16, bf16 or fp32, contiguous.
        scale: Factor on the embeddings.
        newest: `[max_num_seqs]`, int64, contiguous: the token that each sequence drew last. A
            negative one, of a sequence whose logits were no numbers, counts as 0.

    Returns:
        `[num_tokens, hidden]`, fp32.

    Raises:
        ValueError: A shape, dtype or stride is not as above.

    Cost:
        Bound by memory: reads one row of `table` for each token and writes it as fp32.
    """
    check_tensor("table", table, (None, None), *FLOATS)
    check_tensor("token_ids", token_ids, (None,), torch.int64)
    if newest is not None:
        check_tensor("newest", newest, (None,), torch.int64)
    num_tokens, hidden = len(token_ids), table.shape[1]
    out = torch.empty(num_tokens, hidden, dtype=torch.float32, device=table.device)
    launch(
        _embed_kernel,
        (num_tokens, triton.cdiv(hidden, _BLOCK)),
        # Where no token is negative, any tokens will do: no kernel is compiled for that alone.
        (out, token_ids, token_ids if newest is None else newest, table, hidden, scale),
        Configuration(constants=(("BLOCK", _BLOCK),)),
    )
    return out


@triton.jit
def _embed_kernel(
    out_ptr,  # [num_tokens, hidden]
    token_ids_ptr,  # [num_tokens]
    newest_ptr,  # [max_num_seqs]
    table_ptr,  # [vocab_size, hidden]
    hidden,
    scale,
    BLOCK: tl.constexpr,  # values of a program
):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token = tl.load(token_ids_ptr + row)
    carried = tl.load(newest_ptr - 1 - token, mask=token < 0, other=0)
    token = tl.where(token < 0, tl.maximum(carried, 0), token)
    values = tl.load(table_ptr + token * hidden + offs, mask=offs < hidden, other=0.0)
    tl.store(out_ptr + row * hidden + offs, values.to(tl.float32) * scale, mask=offs < hidden)
