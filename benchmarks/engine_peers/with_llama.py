"""llama.cpp on the closed loop: `llama_batch` with a sequence per row, greedy.

The loop is that of its own server: all rows that decode, then as much of the waiting prompts
as the batch has room for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import llama_cpp as llama
import numpy as np

from .workload import MOST, Request

__all__ = ["LlamaCpp"]

_BATCH = 512


@llama.llama_log_callback
def _silent(level: int, text: bytes, data: Any) -> None:
    """It tells of everything that it loads."""


@dataclass(slots=True)
class _Row:
    request: Request
    computed: int = 0
    made: int = 0
    token: int = 0

    @property
    def missing(self) -> int:
        return len(self.request.prompt) - self.computed


class LlamaCpp:
    """The model of a GGUF file as llama.cpp runs it, in the file's own quantisation.

    Args:
        unified: One KV buffer for all sequences, as its server has it, or one for each.
    """

    def __init__(self, model: str, threads: int, *, unified: bool) -> None:
        llama.llama_log_set(_silent, ctypes.c_void_p(0))
        llama.llama_backend_init()
        self._model = llama.llama_model_load_from_file(
            model.encode(), llama.llama_model_default_params()
        )
        self._vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))
        self._threads, self._unified = threads, unified
        self._context: Any = None
        self._batch = llama.llama_batch_init(_BATCH, 0, 1)

    def start(self, rows: int, requests: Iterator[Request]) -> None:
        if self._context is not None:
            llama.llama_free(self._context)
        options = llama.llama_context_default_params()
        options.n_ctx, options.n_seq_max = rows * 2 * MOST, rows
        options.n_batch = options.n_ubatch = _BATCH
        options.n_threads = options.n_threads_batch = self._threads
        options.kv_unified = self._unified
        self._context = llama.llama_init_from_model(self._model, options)
        assert self._context, "llama.cpp made no context"
        self._requests = requests
        self._rows = [_Row(next(requests)) for _ in range(rows)]

    def step(self) -> int:
        sampled = self._fill()
        code = llama.llama_decode(self._context, self._batch)
        assert code == 0, f"llama_decode returned {code}"
        memory = llama.llama_get_memory(self._context)
        for place, number in sampled:
            row = self._rows[number]
            logits = llama.llama_get_logits_ith(self._context, place)
            row.token = int(np.ctypeslib.as_array(logits, (self._vocabulary,)).argmax())
            row.made += 1
            if row.made >= row.request.output:
                llama.llama_memory_seq_rm(memory, number, -1, -1)
                self._rows[number] = _Row(next(self._requests))
        return len(sampled)

    def _fill(self) -> list[tuple[int, int]]:
        """Put the next step into the batch; which places of it are sampled for which rows."""
        self._batch.n_tokens = 0
        sampled = []
        for number, row in enumerate(self._rows):
            if row.missing == 0:
                position = row.computed + row.made - 1
                sampled.append((self._put(row.token, position, number, logits=True), number))
        for number, row in enumerate(self._rows):
            for _ in range(min(row.missing, _BATCH - self._batch.n_tokens)):
                is_last = row.missing == 1
                token = row.request.prompt[row.computed]
                place = self._put(token, row.computed, number, logits=is_last)
                row.computed += 1
                if is_last:
                    sampled.append((place, number))
        return sampled

    def _put(self, token: int, position: int, number: int, *, logits: bool) -> int:
        batch, place = self._batch, self._batch.n_tokens
        batch.token[place], batch.pos[place] = token, position
        batch.n_seq_id[place], batch.seq_id[place][0] = 1, number
        batch.logits[place] = logits
        batch.n_tokens += 1
        return int(place)
