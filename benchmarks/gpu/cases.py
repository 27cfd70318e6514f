"""Inputs of kernels, each with what runs them on a device and what their twins make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from server_reference.core import SamplingParams
from server_reference.kernels import activation, embedding, ngram, norms, rotary, sampling
from server_reference.kernels.draw import Draw
from server_reference.kernels.packed_draws import PackedDraws
from server_reference.kernels.reference import activation as plain_activation
from server_reference.kernels.reference import embedding as plain_embedding
from server_reference.kernels.reference import ngram as plain_ngram
from server_reference.kernels.reference import norms as plain_norms
from server_reference.kernels.reference import rotary as plain_rotary
from server_reference.kernels.reference import sampling as plain_sampling
from server_reference.kernels.rope import rotations
from server_reference.models.transformer import ModelConfig

__all__ = ["Case", "Moved", "fp8_case", "moved", "stream_cases"]

Moved: TypeAlias = Callable[[Tensor], Tensor]
"""Copies a tensor to where the kernel runs."""

_T = TypeVar("_T")
_ROWS = 37
_EXACT = (1e-5, 1e-5)
_ROUNDED = {torch.float32: _EXACT, torch.bfloat16: (2**-7, 2**-7)}  # twice what rounding takes
_FP8 = (2**-2, 2**-6)  # a neighbour: the values before rounding differ by their own rounding


@dataclass(frozen=True, slots=True)
class Case:
    """One input of one kernel.

    Args:
        run: The kernel on a copy of the inputs; all that it writes.
        twin: The same from its twin, on the CPU.
        allowed: Relative and absolute difference, of each.
    """

    kernel: str
    name: str
    run: Callable[[Moved], list[Tensor]]
    twin: Callable[[], list[Tensor]]
    allowed: list[tuple[float, float]]


def moved(value: _T, to: Moved) -> _T:
    """A value, or one whose fields are tensors, on another device."""
    if isinstance(value, Tensor):
        return to(value)  # type: ignore[return-value]  # a tensor becomes one
    if not hasattr(value, "__dataclass_fields__"):
        return value
    own: Any = value
    return replace(own, **{one.name: moved(getattr(own, one.name), to) for one in fields(own)})


def stream_cases(
    config: ModelConfig, dtype: torch.dtype, chance: torch.Generator
) -> Iterator[Case]:
    """What is done to whole rows, to heads, and to logits."""
    yield _embed(config, dtype, chance)
    yield from _norms(config, dtype, chance)
    yield _gate(config, dtype, chance)
    yield _rotary(config, dtype, dtype, chance)
    yield from _draws(config, chance)
    yield _ngram(chance)


def _case(
    kernel: str,
    name: str,
    run: Callable[..., Any],
    twin: Callable[..., Any],
    given: tuple[Any, ...],
    options: dict[str, Any],
    allowed: list[tuple[float, float]],
    written: tuple[int, ...] = (),
) -> Case:
    """Of functions of one form; those of `given` that are `written` are results as well."""

    def called(function: Callable[..., Any], to: Moved) -> list[Tensor]:
        own = [moved(one, to) for one in given]
        result = function(*own, **{key: moved(one, to) for key, one in options.items()})
        return [result, *(own[at] for at in written)]

    return Case(
        kernel, name, lambda to: called(run, to), lambda: called(twin, torch.clone), allowed
    )


def _random(*shape: int, chance: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=chance).to(dtype)


def _embed(config: ModelConfig, dtype: torch.dtype, chance: torch.Generator) -> Case:
    vocab_size = min(config.vocab_size, 1000)
    table = _random(vocab_size, config.hidden_size, chance=chance, dtype=dtype)
    token_ids = torch.randint(-3, vocab_size, (_ROWS,), generator=chance)
    token_ids[:4] = torch.tensor([-1, -2, -3, 0])
    options = {"scale": config.embedding_scale, "newest": torch.tensor([5, -1, 7])}
    run, twin = embedding.embed, plain_embedding.embed
    return _case("embed", "carried", run, twin, (token_ids, table), options, [_EXACT])


def _norms(config: ModelConfig, dtype: torch.dtype, chance: torch.Generator) -> Iterator[Case]:
    hidden = config.hidden_size
    x, added = (_random(_ROWS, hidden, chance=chance) for _ in range(2))
    weight, post = (_random(hidden, chance=chance).abs() * hidden**0.5 for _ in range(2))
    eps = {"eps": config.rms_norm_eps, "dtype": dtype}
    more = {"added": added.to(dtype), "post_weight": post if config.post_norms else None}
    run, twin = norms.add_and_normalise, plain_norms.add_and_normalise
    allowed = [_ROUNDED[dtype], _EXACT]
    yield _case("add_and_normalise", "first", run, twin, (x, weight), eps, allowed, (0,))
    yield _case("add_and_normalise", "added", run, twin, (x, weight), eps | more, allowed, (0,))


def _gate(config: ModelConfig, dtype: torch.dtype, chance: torch.Generator) -> Case:
    gate_up = _random(_ROWS, 2 * config.intermediate_size, chance=chance, dtype=dtype)
    run, twin = activation.activate, plain_activation.activate
    options = {"activation": config.activation}
    return _case("activate", config.activation, run, twin, (gate_up,), options, [_ROUNDED[dtype]])


def _rotary(
    config: ModelConfig, dtype: torch.dtype, kv_dtype: torch.dtype, chance: torch.Generator
) -> Case:
    kv_heads, head_dim, block_size = config.num_kv_heads, config.head_dim, 16
    width = (config.num_q_heads + 2 * kv_heads) * head_dim
    qkv = _random(_ROWS, width, chance=chance, dtype=dtype)
    k_cache, v_cache = (
        torch.zeros(4, block_size, kv_heads, head_dim, dtype=kv_dtype) for _ in range(2)
    )
    slots = torch.randperm(4 * block_size, generator=chance)[:_ROWS]
    slots[3] = -1
    angles = rotations(theta=config.rope_theta, scaling=None, head_dim=head_dim, max_context=_ROWS)
    q_norm, k_norm = (_random(head_dim, chance=chance).abs() * head_dim**0.5 for _ in range(2))
    options = {
        "slots": slots,
        "cos": angles[0].unsqueeze(1).contiguous(),
        "sin": angles[1].unsqueeze(1).contiguous(),
        "num_q_heads": config.num_q_heads,
        "bias": _random(width, chance=chance, dtype=dtype) if config.qkv_bias else None,
        "q_norm": q_norm if config.qk_norm else None,
        "k_norm": k_norm if config.qk_norm else None,
        "eps": config.rms_norm_eps,
    }
    run, twin, given = (
        rotary.rotate_and_store,
        plain_rotary.rotate_and_store,
        (qkv, k_cache, v_cache),
    )
    stored = _ROUNDED.get(kv_dtype, _FP8)
    allowed = [_ROUNDED[dtype], stored, stored]
    name = str(kv_dtype).removeprefix("torch.")
    return _case("rotate_and_store", name, run, twin, given, options, allowed, (1, 2))


def _draws(config: ModelConfig, chance: torch.Generator) -> Iterator[Case]:
    """Every rule at once on some of the rows, none on others."""
    vocab_size = config.vocab_size
    mask = torch.randint(-(2**31), 2**31 - 1, (-(-vocab_size // 32),), generator=chance).int()
    plain: dict[str, Any] = {"max_tokens": 8}
    its: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"temperature": 0.6},
        {"temperature": 1.0, "top_k": 40},
        {"temperature": 1.2, "top_p": 0.9},
        {"temperature": 0.9, "min_p": 0.1, "top_k": 20, "top_p": 0.8},
        {"temperature": 0.7, "repetition_penalty": 1.3, "frequency_penalty": 0.4},
        {"temperature": 1.0, "logit_bias": ((5, 4.0), (9, -50.0))},
        {"temperature": 0.0},
    ]
    draws = [
        Draw(
            SamplingParams(**plain, **one),
            seed=row,
            index=row,
            prompt=[1, 2, 3],
            output=[2, 5, 5],
            allowed=mask if row == len(its) - 1 else None,
        )
        for row, one in enumerate(its)
    ]
    logits = _random(len(draws), vocab_size, chance=chance) * 3
    packed = PackedDraws.of(draws, vocab_size=vocab_size)
    exact, draw = [(0.0, 0.0)], (sampling.draw_tokens, plain_sampling.draw_tokens)
    yield _case("draw_tokens", "all-rules", *draw, (logits, packed), {}, exact)
    yield _case("argmax", "greedy", sampling.argmax, plain_sampling.argmax, (logits,), {}, exact)


def _ngram(chance: torch.Generator) -> Case:
    history = torch.randint(0, 4, (3, 200), generator=chance).int()
    its = [torch.tensor(one).int() for one in ([2, 0, 1], [200, 3, 77], [4, 8, 1])]
    given, options = (history, *its), {"num_drafts": 8}
    return _case("follow", "texts", ngram.follow, plain_ngram.follow, given, options, [(0.0, 0.0)])


def fp8_case(config: ModelConfig, dtype: torch.dtype, chance: torch.Generator) -> Case:
    """Keys and values that are stored in 8 bits."""
    return _rotary(config, dtype, torch.float8_e4m3fn, chance)
