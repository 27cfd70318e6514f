"""Write which kernels are compiled beforehand: `python -m tools.kernel_manifest`.

They are what an engine's parts launch for the supported models, found out by running them on
tensors without memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # triton 3.9 warns where it is not set

import numpy as np
import torch
from torch import Tensor

from server_reference.attention.backend import PagedCache
from server_reference.attention.batch import Batch as EngineBatch
from server_reference.attention.triton_attention import TritonAttention
from server_reference.core import SamplingParams
from server_reference.kernels import fused
from server_reference.kernels.draw import Draw
from server_reference.kernels.launch import recorded
from server_reference.kernels.manifest import MANIFEST, TARGETS, Row, Target, rows
from server_reference.kernels.ngram import follow
from server_reference.models.transformer import Transformer, weight_shapes
from server_reference.public_models import PUBLIC_MODELS

__all__ = ["MODELS", "MOST", "Batch", "Kind", "launches", "main", "render", "strays"]

MOST = 40
"""Rows of a target: more would take too long to compile in every change's checks."""

_BLOCK_SIZE = 16
_META = torch.device("meta")
_ABOUT = "Write the manifest of the kernels that are compiled beforehand."
_CHECK = "write nothing: see that it is up to date, and holds all that N random batches launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A model as it is run.

    Args:
        targets: Chips that it is run on.
    """

    name: str
    dtype: torch.dtype = torch.bfloat16
    kv_dtype: torch.dtype = torch.bfloat16
    targets: tuple[Target, ...] = TARGETS


MODELS = (
    *(Kind(name=name) for name in PUBLIC_MODELS),
    Kind(name="Llama-3-8B", kv_dtype=torch.float8_e4m3fn, targets=("sm_90", "sm_100", "gfx942")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a step's shapes depend on, besides the model.

    Args:
        query_len: Of each sequence that is no decode.
        max_blocks: Of a sequence.
        num_rows: Of logits.
        num_added: Tokens of the vocabulary that the model was not trained with.
        num_extra: Rows, or tokens of them, that something holds for besides.
        num_drafts: Of one text at most.
    """

    num_decodes: int = 3
    num_prefills: int = 2
    query_len: int = 100
    max_blocks: int = 50
    num_splits: int = 8
    num_rows: int = 5
    num_added: int = 0
    num_extra: int = 7
    num_drafts: int = 8

    @property
    def num_seqs(self) -> int:
        return self.num_decodes + self.num_prefills

    @property
    def num_tokens(self) -> int:
        return self.num_decodes + self.num_prefills * self.query_len


def launches(kind: Kind, target: str, batch: Batch) -> list[Row]:
    """The rows that a step launches."""
    with recorded(target) as rows:
        transformer = _transformer(kind)
        for num_splits in {1, batch.num_splits}:
            _run(transformer, kind, batch, num_splits)
        _draw(transformer, batch)
    return list(dict.fromkeys(rows))


@cache
def _transformer(kind: Kind) -> Transformer:
    """Without memory, and of each kind of layer one."""
    config = PUBLIC_MODELS[kind.name]
    windows = tuple(dict.fromkeys(config.windows))
    config = replace(config, num_layers=len(windows) or 1, windows=windows, max_context=4096)
    weights = {
        name: torch.empty(shape, dtype=kind.dtype, device="meta")
        for name, shape in weight_shapes(config).items()
    }
    return Transformer(config, weights, operations=fused)


def _run(transformer: Transformer, kind: Kind, batch: Batch, num_splits: int) -> None:
    """A step of decodes and prompts; decodes spread over programs, or not."""
    config, num_seqs, num_tokens = transformer.config, batch.num_seqs, batch.num_tokens
    cache = PagedCache(
        config, num_blocks=1000, block_size=_BLOCK_SIZE, dtype=kind.kv_dtype, device=_META
    )
    attention = TritonAttention(
        config,
        cache,
        dtype=kind.dtype,
        max_num_seqs=num_seqs,
        max_step_tokens=num_tokens,
        max_blocks=batch.max_blocks,
        num_splits=lambda _: num_splits,
    )
    lens = [1] * batch.num_decodes + [batch.query_len] * batch.num_prefills
    none = np.zeros(num_tokens, dtype=np.int64)
    step = replace(
        EngineBatch.empty(batch.max_blocks),
        slots=none,
        positions=none,
        num_decodes=batch.num_decodes,
        query_start=np.cumsum([0, *lens]),
        context_lens=np.array(lens),
        block_table=np.zeros((num_seqs, batch.max_blocks), dtype=np.int64),
    )
    attention.begin(step)
    tokens, newest = (_on_meta(count, dtype=torch.int64) for count in (num_tokens, num_seqs + 1))
    for known in (newest, None):
        transformer.hidden(tokens, tokens, attention, newest=known)


def _on_meta(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=_META)


def _draw(transformer: Transformer, batch: Batch) -> None:
    rows, vocab_size = batch.num_rows, transformer.config.vocab_size + batch.num_added
    logits = _on_meta(rows, vocab_size, dtype=torch.float32)
    mask = torch.zeros(-(-vocab_size // 32), dtype=torch.int32)
    tokens = list(range(batch.num_extra))
    params = SamplingParams(max_tokens=1, temperature=0.0)
    ruled = replace(
        params,
        temperature=0.8,
        top_p=0.9,
        repetition_penalty=1.2,
        logit_bias=tuple((token, 1.0) for token in tokens),
    )
    plain, random = Draw(params, 0, 0), Draw(ruled, 0, 0, prompt=tokens, allowed=mask)
    fused.sample(logits, [plain] * rows)
    fused.sample(logits, [random] * rows)
    history, one_each = (
        _on_meta(*shape, dtype=torch.int32) for shape in ((rows, batch.num_extra), (rows,))
    )
    follow(history, one_each, one_each, one_each, num_drafts=batch.num_drafts)


def render() -> str:
    """The file: a line for each row, with the chips that have it."""
    targets: dict[Row, dict[str, None]] = {}
    for kind in MODELS:
        for target in kind.targets:
            for row in launches(kind, target, Batch()):
                targets.setdefault(row, {})[target] = None
    lines = [json.dumps(row.as_json() | {"targets": " ".join(its)}) for row, its in targets.items()]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def strays(count: int, seed: int = 0) -> dict[Row, str]:
    """Rows that some of so many batches, of any shape, launch beyond those of the file."""
    draw = random.Random(seed)
    found: dict[Row, str] = {}
    for kind in MODELS:
        for target in kind.targets:
            known = set(rows(target))
            for _ in range(count):
                batch = _any_batch(draw)
                beyond = [row for row in launches(kind, target, batch) if row not in known]
                found |= dict.fromkeys(beyond, f"{kind.name} on {target}, {batch}")
    return found


def _any_batch(draw: random.Random) -> Batch:
    """Of numbers that compilers make a difference by, too: 1, multiples of 16."""

    def some(most: int, least: int = 1) -> int:
        return draw.choice((least, 16, draw.randint(least, most), most))

    return Batch(
        num_decodes=some(300, 0),
        num_prefills=some(20),
        query_len=some(3000),
        max_blocks=some(2000),
        num_splits=some(64),
        num_rows=some(300),
        num_added=some(20, 0),
        num_extra=some(300),
        num_drafts=some(64),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file; 1 where it is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tools.kernel_manifest", description=_ABOUT)
    parser.add_argument("--check", type=int, metavar="N", help=_CHECK)
    batches = parser.parse_args(arguments).check
    if batches is None:
        MANIFEST.write_text(render())
    elif MANIFEST.read_text() != render():
        print("the manifest is not what is launched: run python -m tools.kernel_manifest")
        return 1
    counts = {target: len(rows(target)) for target in TARGETS}
    print(", ".join(f"{count} rows for {target}" for target, count in counts.items()))
    beyond = strays(batches or 0)
    for row, where in beyond.items():
        print(f"not in the manifest: {json.dumps(row.as_json())} ({where})")
    return 1 if beyond or max(counts.values()) > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
