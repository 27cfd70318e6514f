"""Logits of an engine on our kernels, beside those of each whole text in fp32 and torch alone."""

from __future__ import annotations

import gc
from collections.abc import Sequence as Seq
from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from server_reference.config import EngineConfig
from server_reference.core import GenerateRequest, SamplingParams, Sequence
from server_reference.engine.engine import Engine
from server_reference.models.transformer import Transformer

from .device import Device
from .figures import Check
from .model import body, loaded, random_weights, whole
from .sizes import Sizes

__all__ = ["check_logits"]

_ALLOWED = {torch.float32: 1e-3, torch.bfloat16: 0.05}
"""Of a row's distance from what it should be, relative to its length."""
_NUM_SEQS, _OUTPUT = 3, 6


class _Rows:
    """The logits of every draw, by sequence."""

    def __init__(self) -> None:
        self.of: dict[str, list[Tensor]] = {}

    def __call__(self, sequences: Seq[Sequence], logits: Tensor) -> None:
        for sequence, row in zip(sequences, logits, strict=True):
            self.of.setdefault(sequence.id, []).append(row.clone())


def check_logits(device: Device, sizes: Sizes) -> Check:
    """Prompts in shares, decodes beside prompts, steps that were recorded."""
    config = replace(sizes.model, num_layers=sizes.checked_layers)
    weights = random_weights(config, device)
    rows = _Rows()
    engine = _engine(device, sizes, loaded(config, weights), rows)
    texts = _generated(engine, [sizes.least + 5 * number for number in range(_NUM_SEQS)])
    del engine
    gc.collect()
    device.forget()
    plain = Transformer(config, {name: one.float().cpu() for name, one in weights.items()})
    worst = 0.0
    for id, (prompt, output) in texts.items():
        expected = whole(plain, prompt + output)[len(prompt) - 1 : -1]
        got = torch.stack(rows.of[id]).float().cpu()
        distances = (got - expected).norm(dim=1) / expected.norm(dim=1)
        worst = max(worst, float(distances.nan_to_num(nan=torch.inf).max()))
    is_right = worst <= _ALLOWED[device.dtype]
    wrong = "" if is_right else f"rows are off by {worst:.3g} of their length"
    error = worst / _ALLOWED[device.dtype] if isfinite(worst) else None
    case = f"{len(texts)} texts, {config.num_layers} layers"
    return Check(kernel="engine's logits", case=case, error=error, wrong=wrong)


def _engine(device: Device, sizes: Sizes, model: Any, rows: _Rows) -> Engine:
    num_blocks = _NUM_SEQS * -(-(sizes.least + 5 * _NUM_SEQS + _OUTPUT) // sizes.block_size)
    limits = {
        "max_num_seqs": _NUM_SEQS,
        "max_step_tokens": max(2 * _NUM_SEQS, sizes.least),  # the last prompts take two steps
        "block_size": sizes.block_size,
        "num_blocks": 2 * num_blocks,
        "max_context": sizes.least + 5 * _NUM_SEQS + _OUTPUT,
    }
    is_gpu = device.device.type == "cuda"
    config = EngineConfig(device="cuda" if is_gpu else "cpu", lookahead=1, **limits)  # type: ignore[arg-type]  # integers
    if is_gpu:
        return Engine(model, config, on_logits=rows)
    del limits["num_blocks"]
    own = body(device, model.transformer, num_blocks=config.num_blocks or 0, **limits)
    return Engine(model, config, on_logits=rows, body=own)


def _generated(engine: Engine, lens: Seq[int]) -> dict[str, tuple[list[int], list[int]]]:
    """Prompt and greedy output of each text."""
    texts: dict[str, tuple[list[int], list[int]]] = {}
    for number, length in enumerate(lens):
        prompt = [(7 * at + number) % 90 for at in range(length)]
        texts[str(number)] = prompt, []
        params = SamplingParams(max_tokens=_OUTPUT, temperature=0.0, ignore_eos=True)
        engine.add(
            GenerateRequest(id=str(number), tenant="t", prompt_token_ids=prompt, params=params)
        )
    while engine.has_work:
        for update in engine.step():
            assert update.error is None, update.error
            texts[update.id][1].extend(update.token_ids)
    return texts
