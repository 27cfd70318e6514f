"""Change logits on a device as `logit_rules` does on a host: penalties, bias, grammar masks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arguments import check_tensor
from .launch import Configuration, launch
from .packed_draws import Bias, Masks, PackedDraws, Penalties

__all__ = ["apply_rules"]

_TOKENS = 1024
"""Of a program. Model: 8 for each of 128 threads, one or two loads of 16 bytes."""
_BIASES = 128
"""Of a program. Model: one for each thread, as each is somewhere else in memory."""

_IS_IN_PROMPT = tl.constexpr(1 << 30)


def apply_rules(logits: Tensor, draws: PackedDraws) -> Tensor:
    """`logits` where no row has a rule, else a changed copy.

    Every value is rounded as `logit_rules.apply_rules` rounds it. What is no number, or
    infinite, stays so even where a grammar forbids it: its row cannot be drawn from.

    Args:
        logits: `[rows, vocab_size]`, fp32, contiguous.
        draws: One for each row.

    Raises:
        ValueError: A shape, dtype or stride is not as above, or as `PackedDraws` has them.

    Cost:
        Bound by memory. A copy of all logits, 8 bytes each; for a row with penalties 4 bytes for
        each token of the vocabulary, to be cleared, and 20 for each token of its history; for
        a mask 4 for each token.
    """
    penalties, bias, masks = draws.penalties, draws.bias, draws.masks
    if penalties is None and bias is None and masks is None:
        return logits
    _check(draws)
    changed = logits.clone()
    if penalties is not None:
        _penalise(changed, penalties)
    if bias is not None:
        _add(changed, bias)
    if masks is not None:
        _mask(changed, masks)
    return changed


def _check(draws: PackedDraws) -> None:
    if (penalties := draws.penalties) is not None:
        count = len(penalties.rows)
        check_tensor("penalties.rows", penalties.rows, (count,), torch.int32)
        check_tensor("penalties.factors", penalties.factors, (count, 3), torch.float64)
        check_tensor("penalties.history", penalties.history, (None, None), torch.int32)
        check_tensor("penalties.places", penalties.places, (count, 3), torch.int32)
    if (bias := draws.bias) is not None:
        count = len(bias.places)
        check_tensor("bias.places", bias.places, (count, 2), torch.int32)
        check_tensor("bias.values", bias.values, (count, None), torch.float32)
    if (masks := draws.masks) is not None:
        count = len(masks.rows)
        check_tensor("masks.rows", masks.rows, (count,), torch.int32)
        check_tensor("masks.bits", masks.bits, (count, None), torch.int32)


def _penalise(logits: Tensor, penalties: Penalties) -> None:
    num_rows, max_context = len(penalties.rows), penalties.history.shape[1]
    vocab_size = logits.shape[1]
    # What each row's history holds how often: counted, then taken once for each token.
    counts = torch.zeros(num_rows, vocab_size, dtype=torch.int32, device=logits.device)
    grid = (num_rows, triton.cdiv(max_context, _TOKENS))
    configuration = Configuration(constants=(("BLOCK", _TOKENS),))
    before = (penalties.history, penalties.places)
    launch(_count_kernel, grid, (counts, *before, vocab_size, max_context), configuration)
    changed = (logits, counts, penalties.rows, penalties.factors)
    launch(_penalty_kernel, grid, (*changed, *before, vocab_size, max_context), configuration)


def _add(logits: Tensor, bias: Bias) -> None:
    num_biases, most = bias.values.shape
    launch(
        _bias_kernel,
        (triton.cdiv(num_biases, _BIASES),),
        (logits, bias.places, bias.values, logits.shape[1], num_biases, most),
        Configuration(constants=(("BLOCK", _BIASES),)),
    )


def _mask(logits: Tensor, masks: Masks) -> None:
    num_masks, num_words = masks.bits.shape
    launch(
        _mask_kernel,
        (num_masks, triton.cdiv(logits.shape[1], _TOKENS)),
        (logits, masks.rows, masks.bits, logits.shape[1], num_words),
        Configuration(constants=(("BLOCK", _TOKENS),)),
    )


@triton.jit(do_not_specialize=["max_context"])
def _count_kernel(
    counts_ptr,  # [num_penalties, vocab_size]
    history_ptr,  # [num_sequences, max_context]
    places_ptr,  # [num_penalties, 3]
    vocab_size,
    max_context,
    BLOCK: tl.constexpr,  # tokens of a program
):
    tokens, is_output, inside = _tokens(history_ptr, places_ptr, max_context, BLOCK)
    counts = counts_ptr + tl.program_id(0).to(tl.int64) * vocab_size + tokens
    tl.atomic_add(counts, 1, mask=inside & is_output, sem="relaxed")
    tl.atomic_or(counts, _IS_IN_PROMPT, mask=inside & (is_output == 0), sem="relaxed")


@triton.jit(do_not_specialize=["max_context"])
def _penalty_kernel(
    logits_ptr,  # [rows, vocab_size]
    counts_ptr,  # [num_penalties, vocab_size]
    rows_ptr,  # [num_penalties]
    factors_ptr,  # [num_penalties, 3]
    history_ptr,  # [num_sequences, max_context]
    places_ptr,  # [num_penalties, 3]
    vocab_size,
    max_context,
    BLOCK: tl.constexpr,  # tokens of a program
):
    at = tl.program_id(0).to(tl.int64)
    tokens, _, inside = _tokens(history_ptr, places_ptr, max_context, BLOCK)
    # Whoever takes a token's count changes its logit: one of those that stand for it.
    count = tl.atomic_xchg(counts_ptr + at * vocab_size + tokens, 0, mask=inside, sem="relaxed")
    inside &= count != 0
    logits = logits_ptr + tl.load(rows_ptr + at).to(tl.int64) * vocab_size + tokens
    own = tl.load(logits, mask=inside, other=0.0)  # [BLOCK]
    repetition = tl.load(factors_ptr + 3 * at).to(tl.float32)
    own = tl.where(own > 0, tl.div_rn(own, repetition), own * repetition)
    # As NumPy rounds it: a product and a sum in fp64. A zero that the compiler does not know
    # keeps it from making one operation of the two, which would round once.
    num_outputs = count & (_IS_IN_PROMPT - 1)
    frequency, presence = tl.load(factors_ptr + 3 * at + 1), tl.load(factors_ptr + 3 * at + 2)
    zero = tl.program_id(2).to(tl.float64)
    off = tl.fma(num_outputs.to(tl.float64), frequency, zero) + presence
    off = tl.where(num_outputs > 0, off, 0.0)
    tl.store(logits, (own.to(tl.float64) - off).to(tl.float32), mask=inside)


@triton.jit
def _tokens(history_ptr, places_ptr, max_context, BLOCK: tl.constexpr):
    """A program's share of the tokens before a row, which of them are output, and which exist."""
    place = places_ptr + 3 * tl.program_id(0)
    sequence, num_prompt, num_tokens = tl.load(place), tl.load(place + 1), tl.load(place + 2)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    history = history_ptr + sequence.to(tl.int64) * max_context
    tokens = tl.load(history + offs, mask=offs < num_tokens, other=0)
    return tokens, offs >= num_prompt, offs < num_tokens


@triton.jit(do_not_specialize=["num_biases", "most"])
def _bias_kernel(
    logits_ptr,  # [rows, vocab_size]
    places_ptr,  # [num_biases, 2]
    values_ptr,  # [num_biases, most]
    vocab_size,
    num_biases,
    most,
    BLOCK: tl.constexpr,  # biases of a program
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < num_biases
    row = tl.load(places_ptr + 2 * offs, mask=inside, other=0).to(tl.int64)
    logits = logits_ptr + row * vocab_size + tl.load(places_ptr + 2 * offs + 1, inside, 0)
    own = tl.load(logits, mask=inside, other=0.0)  # [BLOCK]
    for at in range(most):
        own += tl.load(values_ptr + offs * most + at, mask=inside, other=0.0)
    tl.store(logits, own, mask=inside)


@triton.jit(do_not_specialize=["num_words"])
def _mask_kernel(
    logits_ptr,  # [rows, vocab_size]
    rows_ptr,  # [num_masks]
    bits_ptr,  # [num_masks, num_words]
    vocab_size,
    num_words,
    BLOCK: tl.constexpr,  # tokens of a program
):
    at = tl.program_id(0).to(tl.int64)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    words = tl.load(bits_ptr + at * num_words + offs // 32, mask=offs // 32 < num_words, other=0)
    forbidden = (offs < vocab_size) & (((words >> (offs % 32)) & 1) == 0)
    logits = logits_ptr + tl.load(rows_ptr + at).to(tl.int64) * vocab_size + offs
    own = tl.load(logits, mask=forbidden, other=0.0)
    tl.store(logits, float("-inf"), mask=forbidden & (own < float("inf")))  # false of a NaN too
