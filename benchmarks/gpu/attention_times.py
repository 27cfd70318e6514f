"""Attention beside the chip's ceilings, torch's SDPA and FlexAttention."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from server_reference.models.transformer import ModelConfig
from server_reference.roofline import Chip

from .attending import scattered
from .ceilings import or_why
from .device import Device
from .figures import Figure, Target
from .sizes import Sizes

__all__ = ["decodes", "flex", "prompts"]


def decodes(device: Device, sizes: Sizes, chip: Chip) -> Iterator[Figure]:
    """Decode attention, as the engine launches it, in its share of the copy's bandwidth."""
    for name, config in sizes.attending.items():
        for num_seqs, context in sizes.decodes:
            step = scattered(
                config,
                [(1, context)] * num_seqs,
                dtype=device.dtype,
                block_size=sizes.block_size,
                device=device.device,
            )
            num_parts = device.num_splits(
                num_seqs, num_kv_heads=config.num_kv_heads, max_context=context
            )
            split = None if num_parts == 1 else step.split(num_parts)
            seconds = device.seconds(
                partial(step.attend, split, torch.zeros_like(step.inputs["q"]))
            )
            values = 2 * num_seqs * context * config.num_kv_heads * config.head_dim
            share = values * device.dtype.itemsize / seconds / chip.bandwidth
            del step, split
            yield Figure(
                stage="decode attention",
                name=f"{name}'s heads, {num_seqs} x {context:,} tokens",
                value=seconds * 1e6,
                unit="us",
                share=share,
                best="copy",
                beside=_sdpa(device, config, num_seqs, 1, context),
                target=Target(value=share, least=0.8, what="share of the copy's bandwidth")
                if num_seqs >= 64
                else None,
            )


def prompts(device: Device, sizes: Sizes, chip: Chip) -> Iterator[Figure]:
    """Attention of one long prompt, in its share of the product's operations."""
    for name, config in sizes.attending.items():
        length = sizes.prompt
        step = scattered(
            config,
            [(length, length)],
            dtype=device.dtype,
            block_size=sizes.block_size,
            device=device.device,
        )
        seconds = device.seconds(partial(step.attend, out=torch.zeros_like(step.inputs["q"])))
        operations = 2.0 * length * (length + 1) * config.num_q_heads * config.head_dim
        beside = _sdpa(device, config, 1, length, length)
        others = [one for one in beside.values() if isinstance(one, float)]
        ratio = min(others, default=0.0) / (seconds * 1e6)
        del step
        yield Figure(
            stage="prefill attention",
            name=f"{name}'s heads, {length:,} tokens, causal",
            value=seconds * 1e6,
            unit="us",
            share=operations / seconds / chip.operations["bf16"],
            best="product",
            beside=beside,
            target=Target(value=ratio, least=0.55, what="speed relative to SDPA's best backend"),
        )


def _sdpa(
    device: Device, config: ModelConfig, num_seqs: int, query: int, context: int
) -> dict[str, float | str]:
    """Microseconds of torch's backends on contiguous keys and values."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    given = {"dtype": device.dtype, "device": device.device}
    q = torch.randn(num_seqs, config.num_q_heads, query, config.head_dim, **given)
    k, v = (
        torch.randn(num_seqs, config.num_kv_heads, context, config.head_dim, **given)
        for _ in range(2)
    )

    def measure(backend: SDPBackend) -> float:
        def run() -> Tensor:
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(
                    q, k, v, is_causal=query > 1, enable_gqa=True
                )

        return device.seconds(run) * 1e6

    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }
    if device.device.type == "cuda":
        del backends["math"]
    return {f"SDPA {name}": or_why(partial(measure, one)) for name, one in backends.items()}


def flex(device: Device, sizes: Sizes) -> Iterator[Figure]:
    """FlexAttention on the same shapes: compiled by torch, which takes a while."""
    name, config = next(iter(sizes.attending.items()))
    num_seqs, context = sizes.decodes[-1]
    shapes = {"decode": (num_seqs, 1, context), "prefill": (1, sizes.prompt, sizes.prompt)}
    for kind, (seqs, query, keys) in shapes.items():
        found = or_why(partial(_flex, device, config, seqs, query, keys))
        is_told = isinstance(found, str)
        yield Figure(
            stage="FlexAttention",
            name=f"{kind}, {name}'s heads, {seqs} x {keys:,} tokens",
            value=None if is_told else found,
            unit="us",
            note=found if is_told else "",
        )


def _flex(device: Device, config: ModelConfig, seqs: int, query: int, keys: int) -> float:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    given = {"dtype": device.dtype, "device": device.device}
    q = torch.randn(seqs, config.num_q_heads, query, config.head_dim, **given)
    k, v = (
        torch.randn(seqs, config.num_kv_heads, keys, config.head_dim, **given) for _ in range(2)
    )
    mask = None
    if query > 1:
        mask = create_block_mask(
            lambda batch, head, row, column: row >= column,
            B=None,
            H=None,
            Q_LEN=query,
            KV_LEN=keys,
            device=device.device,
        )
    attend: Any = flex_attention
    if device.device.type == "cuda":
        attend = torch.compile(flex_attention, dynamic=False)
    run = partial(attend, q, k, v, block_mask=mask, enable_gqa=True)
    run()
    return device.seconds(run, is_captured=False) * 1e6
