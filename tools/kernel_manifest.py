"""Write which kernels are compiled beforehand: `python -m tools.kernel_manifest`.

They are what the kernels' wrappers launch for the supported models, found out by calling them on
tensors without memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # triton 3.9 warns where it is not set

import torch
from torch import Tensor

from server_reference.kernels.activation import activate
from server_reference.kernels.attention import Split, paged_attention, split_parts
from server_reference.kernels.embedding import embed
from server_reference.kernels.launch import recorded
from server_reference.kernels.manifest import MANIFEST, TARGETS, Row, Target, rows
from server_reference.kernels.ngram import follow
from server_reference.kernels.norms import add_and_normalise
from server_reference.kernels.packed_draws import Bias, Masks, PackedDraws, Penalties
from server_reference.kernels.rotary import rotate_and_store
from server_reference.kernels.sampling import argmax, draw_tokens
from server_reference.models.transformer import ModelConfig
from server_reference.public_models import PUBLIC_MODELS

__all__ = ["MODELS", "MOST", "Batch", "Kind", "launches", "main", "render", "strays"]

MOST = 40
"""Rows of a target: more would take too long to compile in every change's checks."""

_BLOCK_SIZE = 16
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
        num_extra: Rows, or tokens of them, that something holds for besides.
    """

    num_decodes: int = 3
    num_prefills: int = 2
    query_len: int = 100
    max_blocks: int = 50
    num_splits: int = 8
    num_rows: int = 5
    num_extra: int = 7

    @property
    def num_seqs(self) -> int:
        return self.num_decodes + self.num_prefills

    @property
    def num_tokens(self) -> int:
        return self.num_decodes + self.num_prefills * self.query_len


def launches(kind: Kind, target: str, batch: Batch) -> list[Row]:
    """The rows that a step launches."""
    config = PUBLIC_MODELS[kind.name]
    with recorded(target) as rows:
        _stream(config, kind, batch)
        q, cache = _heads(config, kind, batch)
        for window in dict.fromkeys(config.windows or (None,)):
            _attend(config, q, cache, batch, window)
        _draw(config, batch)
    return list(dict.fromkeys(rows))


def _on_meta(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _stream(config: ModelConfig, kind: Kind, batch: Batch) -> None:
    """What is done to whole rows: embeddings, norms, gates."""
    hidden, dtype = config.hidden_size, kind.dtype
    table = _on_meta(config.vocab_size, hidden, dtype=dtype)
    tokens = _on_meta(batch.num_tokens, dtype=torch.int64)
    newest = _on_meta(batch.num_rows, dtype=torch.int64)
    x = embed(tokens, table, scale=config.embedding_scale, newest=newest)
    weight = _on_meta(hidden, dtype=torch.float32)
    eps = config.rms_norm_eps
    add_and_normalise(x, weight, eps=eps, dtype=dtype)
    added = _on_meta(batch.num_tokens, hidden, dtype=dtype)
    post = weight if config.post_norms else None
    add_and_normalise(x, weight, eps=eps, dtype=dtype, added=added, post_weight=post)
    gate_up = _on_meta(batch.num_tokens, 2 * config.intermediate_size, dtype=dtype)
    activate(gate_up, config.activation)


def _heads(config: ModelConfig, kind: Kind, batch: Batch) -> tuple[Tensor, Tensor]:
    """Rotated queries, and a cache."""
    heads = config.num_q_heads + 2 * config.num_kv_heads
    qkv = _on_meta(batch.num_tokens, heads * config.head_dim, dtype=kind.dtype)
    cache = _on_meta(1000, _BLOCK_SIZE, config.num_kv_heads, config.head_dim, dtype=kind.kv_dtype)
    places = _on_meta(batch.num_tokens, dtype=torch.int64)
    angles = _on_meta(batch.num_tokens, 1, config.head_dim, dtype=torch.float32)
    norm = _on_meta(config.head_dim, dtype=torch.float32) if config.qk_norm else None
    q = rotate_and_store(
        qkv,
        cache,
        cache,
        slots=places,
        cos=angles,
        sin=angles,
        num_q_heads=config.num_q_heads,
        bias=qkv[0] if config.qkv_bias else None,
        q_norm=norm,
        k_norm=norm,
        eps=config.rms_norm_eps,
    )
    return q, cache


def _attend(
    config: ModelConfig, q: Tensor, cache: Tensor, batch: Batch, window: int | None
) -> None:
    """Decodes and prompts of one step; decodes spread over programs, and not."""
    num_decodes, num_splits = batch.num_decodes, batch.num_splits
    parts = split_parts(num_decodes, config.num_q_heads, config.head_dim, num_splits, "meta")
    for split in (None, Split(parts)) if num_decodes else (None,):
        paged_attention(
            q,
            cache,
            cache,
            _on_meta(batch.num_seqs, batch.max_blocks, dtype=torch.int32),
            _on_meta(batch.num_seqs + 1, dtype=torch.int32),
            _on_meta(batch.num_seqs, dtype=torch.int32),
            out=torch.empty_like(q),
            scale=config.attention_scale or config.head_dim**-0.5,
            num_decodes=num_decodes,
            max_query_len=batch.query_len,
            window=window,
            soft_cap=config.attention_soft_cap,
            split=split,
        )


def _draw(config: ModelConfig, batch: Batch) -> None:
    rows, vocab_size = batch.num_rows, config.vocab_size
    logits = _on_meta(rows, vocab_size, dtype=torch.float32)
    argmax(logits)
    int32 = torch.int32
    draws = PackedDraws(
        params=_on_meta(rows, 6, dtype=torch.float64),
        is_greedy=False,
        penalties=Penalties(
            _on_meta(rows, dtype=int32),
            _on_meta(rows, 3, dtype=torch.float64),
            _on_meta(rows, batch.num_extra, dtype=int32),
            _on_meta(rows, 3, dtype=int32),
        ),
        bias=Bias(
            _on_meta(rows, 2, dtype=int32), _on_meta(rows, batch.num_extra, dtype=torch.float32)
        ),
        masks=Masks(_on_meta(rows, dtype=int32), _on_meta(rows, -(-vocab_size // 32), dtype=int32)),
    )
    draw_tokens(logits, draws)
    history, one_each = (
        _on_meta(*shape, dtype=int32) for shape in ((rows, batch.num_extra), (rows,))
    )
    follow(history, one_each, one_each, one_each, num_drafts=8)


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
        num_extra=some(300),
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
