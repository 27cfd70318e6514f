"""transformers on the closed loop, in bf16: its continuous batching, and `generate` for one row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, GgufConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching import RequestState

from .workload import MOST, Request

__all__ = ["Transformers"]

_PAGE, _STEP_TOKENS = 256, 512


class Transformers:
    """The weights of a GGUF file, dequantised to bf16.

    Args:
        converted: Where they are kept once they were dequantised.
    """

    def __init__(self, model: str, threads: int, *, converted: str) -> None:
        torch.set_num_threads(threads)
        folder, gguf = Path(converted), Path(model)
        if not (folder / "config.json").exists():
            given: Any = AutoModelForCausalLM.from_pretrained(
                gguf.parent,
                gguf_file=gguf.name,
                dtype=torch.bfloat16,
                quantization_config=GgufConfig(dequantize=True),
            )
            part = folder.with_name(f"{folder.name}.part")
            given.save_pretrained(part)
            part.replace(folder)  # whole or not at all
        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        self._model.eval()
        kinds = {(type(m).__name__, m.weight.dtype) for m in self._model.modules() if _linear(m)}
        if kinds != {("Linear", torch.bfloat16)}:
            raise RuntimeError(f"transformers did not load plain bf16 weights, but {kinds}")

    def start(self, rows: int, requests: Iterator[Request]) -> None:
        self._one = _Generate(self._model, next(requests)) if rows == 1 else None
        if rows > 1:
            self._many = _Continuous(self._model, rows, requests)

    @torch.inference_mode()
    def step(self) -> int:
        return self._many.step() if self._one is None else self._one.step()


class _Generate:
    """`generate` of one row. A step is a token: its streamer is called between two of them."""

    def __init__(self, model: Any, request: Request) -> None:
        self._model = model
        self._ids = torch.tensor([request.prompt])
        self._cache: Any = None

    def step(self) -> int:
        """One more token, from the cache of the ones before."""
        output = self._model.generate(
            self._ids,
            attention_mask=torch.ones_like(self._ids),
            past_key_values=self._cache,
            max_new_tokens=_CHUNK,
            min_new_tokens=_CHUNK,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            return_dict_in_generate=True,
        )
        self._ids, self._cache = output.sequences, output.past_key_values
        return _CHUNK


_CHUNK = 12
"""Tokens of one call of `generate`, whose own preparation is then a small part."""


class _Continuous:
    """Its continuous batching, driven step by step in this thread instead of one of its own."""

    def __init__(self, model: Any, rows: int, requests: Iterator[Request]) -> None:
        self._requests, self._number = requests, 0
        blocks = rows * (2 * MOST // _PAGE + 1)
        self._manager = model.init_continuous_batching(
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=_PAGE,
                num_blocks=blocks,
                max_batch_tokens=_STEP_TOKENS,
                max_requests_per_batch=rows,
                use_async_batching=False,
                allow_block_sharing=False,
            ),
        )
        self._processor = self._manager._create_batch_processor()
        self._manager.batch_processor = self._processor
        self._running: list[tuple[Any, int]] = []
        for _ in range(rows):
            self._add()

    def step(self) -> int:
        before = sum(len(state.generated_tokens) for state, _ in self._running)
        assert self._processor.prepare_next_batch(), "transformers found nothing to do"
        self._manager._generation_step()
        self._processor.update_batch()
        made = sum(len(state.generated_tokens) for state, _ in self._running) - before
        ended = [pair for pair in self._running if len(pair[0].generated_tokens) >= pair[1]]
        self._running = [pair for pair in self._running if pair not in ended]
        for _ in ended:
            self._add()
        return made

    def _add(self) -> None:
        request = next(self._requests)
        self._number += 1
        state = RequestState(
            request_id=str(self._number),
            initial_tokens=request.prompt,
            max_new_tokens=request.output,
            eos_token_id=-1,
        )
        self._processor.input_queue.put(state)
        self._running.append((state, request.output))


def _linear(module: Any) -> bool:
    return "Linear" in type(module).__name__
