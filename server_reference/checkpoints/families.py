"""The families of models: what sets each apart, and which tensors make up its weights.

Fields have the names of `config.json`; a GGUF file's are translated to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..kernels.rope import RopeKind, RopeScaling
from ..models.transformer import ModelConfig, weight_shapes
from .errors import ModelFileError
from .gguf import Metadata

__all__ = ["FAMILIES", "Family", "Part", "Parts", "build", "measures", "parts_of", "rope_scaling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What sets a family apart from Llama.

    Args:
        pattern: Where a model has windows, the last of so many layers in a row has none; 0
            gives all of them one.
        has_windows: A folder need not say that its window is used.
        is_gemma: Norms on both sides of attention and MLP, weights of norms less 1, scaled
            embeddings, GELU, soft caps.
    """

    qkv_bias: bool = False
    qk_norm: bool = False
    pattern: int = 0
    has_windows: bool = False
    is_gemma: bool = False


FAMILIES = {
    "llama": Family(),
    "mistral": Family(has_windows=True),
    "qwen2": Family(qkv_bias=True),
    "qwen3": Family(qk_norm=True),
    "gemma2": Family(is_gemma=True, pattern=2, has_windows=True),
    "gemma3": Family(is_gemma=True, pattern=6, has_windows=True, qk_norm=True),
}


# Beyond, a file is damaged: to make room for so much would take all memory.
_MOST_LAYERS, _MOST_CONTEXT = 4096, 2**24

_ROPE_NUMBERS = (
    "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "attention_factor",
)  # fmt: skip


def measures(
    fields: Metadata,
    family: Family,
    *,
    vocab_size: int,
    tie_embeddings: bool,
    rope_theta: float,
    local_rope_theta: float | None = None,
    scaling: RopeScaling | None = None,
) -> ModelConfig:
    """A model's measures.

    Raises:
        ModelFileError: One is missing or does not fit the others.
    """
    hidden_size = fields.integer("hidden_size")
    num_q_heads = fields.integer("num_attention_heads")
    head_dim = fields.integer("head_dim", hidden_size // max(num_q_heads, 1))
    _check_most(fields, "num_hidden_layers", _MOST_LAYERS)
    _check_most(fields, "max_position_embeddings", _MOST_CONTEXT)
    windows = _windows(fields, family, turn_alike=local_rope_theta is None)
    gemma = _gemma(fields, hidden_size, head_dim) if family.is_gemma else {}
    _check_yarn(fields, scaling, rope_theta)
    with _about(fields.path):
        return ModelConfig(
            num_layers=fields.integer("num_hidden_layers"),
            hidden_size=hidden_size,
            intermediate_size=fields.integer("intermediate_size"),
            num_q_heads=num_q_heads,
            num_kv_heads=fields.integer("num_key_value_heads", num_q_heads),
            head_dim=head_dim,
            vocab_size=vocab_size,
            max_context=fields.integer("max_position_embeddings"),
            rope_theta=rope_theta,
            rms_norm_eps=fields.number("rms_norm_eps"),
            tie_embeddings=tie_embeddings,
            windows=windows,
            attention_soft_cap=fields.number("attn_logit_softcapping", 0.0) or None,
            rope_scaling=scaling,
            local_rope_theta=local_rope_theta if any(windows) else None,
            qkv_bias=family.qkv_bias,
            qk_norm=family.qk_norm,
            logit_soft_cap=fields.number("final_logit_softcapping", 0.0) or None,
            **gemma,
        )


def _check_most(fields: Metadata, name: str, most: int) -> None:
    if fields.integer(name) > most:
        raise ModelFileError(
            f"{fields.path}: {name} is {fields.integer(name):,}, where at most {most:,} can be; "
            "fetch the file again"
        )


def _check_yarn(fields: Metadata, scaling: RopeScaling | None, rope_theta: float) -> None:
    if scaling is not None and scaling.kind == "yarn" and not rope_theta > 1:
        raise ModelFileError(
            f"{fields.path}: rope_theta must be above 1 for yarn, not {rope_theta}"
        )


def _gemma(fields: Metadata, hidden_size: int, head_dim: int) -> dict[str, Any]:
    return {
        "attention_scale": fields.number("query_pre_attn_scalar", head_dim) ** -0.5,
        "post_norms": True,
        "norm_offset": 1.0,
        "embedding_scale": math.sqrt(hidden_size),
        "activation": "gelu_tanh",
    }


def _windows(fields: Metadata, family: Family, *, turn_alike: bool) -> tuple[int | None, ...]:
    """Of each layer; none where no window is shorter than the context and all layers turn alike."""
    window = fields.integer("sliding_window", 0)
    num_layers = fields.integer("num_hidden_layers")
    has_one = fields.flags("sliding_window_pattern")
    if window <= 0 or (turn_alike and window >= fields.integer("max_position_embeddings")):
        return ()
    if not has_one:
        pattern = fields.integer("sliding_window_pattern", family.pattern)
        has_one = [not pattern or (at + 1) % pattern != 0 for at in range(num_layers)]
    return tuple(window if has else None for has in has_one)


def rope_scaling(path: Path, fields: Metadata, *, max_context: int) -> RopeScaling | None:
    """How `rope_parameters`, or `rope_scaling` as it was called, slow the rotations down.

    Raises:
        ModelFileError: A field is missing, or it is of a kind that is not supported.
    """
    kind = fields.text("rope_type", fields.text("type", "default"))
    if kind == "default":
        return None
    if kind not in get_args(RopeKind):
        raise ModelFileError(
            f"{path}: the rope kind {kind!r} is not supported; take a model whose is "
            f"{', '.join(get_args(RopeKind))}, or not scaled"
        )
    original = fields.number("original_max_position_embeddings", max_context)
    longer = max_context / original if kind == "yarn" and original else None
    factor = fields.number("factor", longer)
    numbers: dict[str, Any] = {
        name: fields.number(name) for name in _ROPE_NUMBERS if name in fields
    }
    scales = fields.number("mscale", 0.0), fields.number("mscale_all_dim", 0.0)
    if all(scales) and "attention_factor" not in numbers:
        above, below = (0.1 * scale * math.log(max(factor, 1)) + 1 for scale in scales)
        numbers["attention_factor"] = above / below if below else math.inf  # which is refused
    with _about(path):
        return RopeScaling(
            kind=kind,  # type: ignore[arg-type]  # one of them
            factor=factor,
            original_context=original,
            truncate=fields.flag("truncate", default=True),
            **numbers,
        )


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """Say of which file it is that a number does not fit."""
    try:
        yield
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor of a file that gives a weight some of its rows, or all.

    Args:
        rows: The order in which its rows are taken; `None` leaves them as they are.
    """

    tensor: str
    shape: tuple[int, ...]
    rows: NDArray[np.intp] | None = None


Parts: TypeAlias = dict[str, tuple[Part, ...]]
"""For each weight, as `weight_shapes` names it, the tensors that lie one below the other in it;
`head` even where it is tied."""


# The tensors of each weight: in GGUF, and in folders with safetensors.
_LAYERS = {"gguf": "blk.{}.", "folder": "model.layers.{}."}
_TENSORS = {
    "embedding": ("token_embd", "model.embed_tokens"),
    "norm": ("output_norm", "model.norm"),
    "head": ("output", "lm_head"),
    "attention_norm": ("attn_norm", "input_layernorm"),
    "qkv": ("attn_q attn_k attn_v", "self_attn.q_proj self_attn.k_proj self_attn.v_proj"),
    "q_norm": ("attn_q_norm", "self_attn.q_norm"),
    "k_norm": ("attn_k_norm", "self_attn.k_norm"),
    "attention_out": ("attn_output", "self_attn.o_proj"),
    "attention_post_norm": ("post_attention_norm", "post_attention_layernorm"),
    "mlp_norm": ("ffn_norm", "post_attention_layernorm"),
    "gate_up": ("ffn_gate ffn_up", "mlp.gate_proj mlp.up_proj"),
    "down": ("ffn_down", "mlp.down_proj"),
    "mlp_post_norm": ("post_ffw_norm", "post_feedforward_layernorm"),
}
_WITH_POST_NORMS = {"mlp_norm": ("ffn_norm", "pre_feedforward_layernorm")}


_FUSED = "{} in one tensor cannot be read; convert the model again with {} apart"
_EXPERTS = "mixtures of experts are not supported; take a dense model"
_IMAGES = "models that see or hear are not supported; take one of text only"
# What is known of tensors that have no place, by a part of their names; the first is told.
_NOT_SUPPORTED = {
    "attn_qkv": _FUSED.format("queries, keys and values", "attn_q, attn_k and attn_v"),
    "qkv_proj": _FUSED.format("queries, keys and values", "q_proj, k_proj and v_proj"),
    "gate_up_proj": _FUSED.format("gate and up", "gate_proj and up_proj"),
    "_exps": _EXPERTS,
    "ffn_gate_inp": _EXPERTS,
    "expert": _EXPERTS,
    "vision": _IMAGES,
    "multi_modal": _IMAGES,
    "lora_": "adapters are not supported; merge it into its model",
    ".bias": "biases there are not supported; take a model without them",
}


def parts_of(
    path: Path,
    config: ModelConfig,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    layout: Literal["gguf", "folder"],
    ignored: Iterable[str] = (),
) -> Parts:
    """Where a file's tensors go.

    Args:
        shapes: The tensors that it has.
        ignored: Those that need no place.

    Raises:
        ModelFileError: A tensor is missing, has no place, or is of another shape.
    """
    tensors = _TENSORS | (_WITH_POST_NORMS if config.post_norms else {})
    heads = config.num_q_heads, config.num_kv_heads, config.num_kv_heads
    rows = {"qkv": [count * config.head_dim for count in heads]}
    rows |= {"gate_up": [config.intermediate_size] * 2}
    parts: Parts = {}
    for weight, shape in weight_shapes(config).items():
        own = weight.rpartition(".")[2]
        kind = "bias" if own.endswith("_bias") else "weight"
        own = own.removesuffix("_bias")
        prefix = _LAYERS[layout].format(weight.split(".")[1]) if "." in weight else ""
        names = tensors[own][layout == "folder"].split()
        counts = rows.get(own, [shape[0]])
        parts[weight] = tuple(
            Part(f"{prefix}{name}.{kind}", (count, *shape[1:]))
            for name, count in zip(names, counts, strict=True)
        )
    parts.setdefault("head", parts["embedding"])
    _check(path, [part for some in parts.values() for part in some], shapes, set(ignored))
    return parts


def _check(
    path: Path, parts: list[Part], shapes: Mapping[str, tuple[int, ...]], ignored: set[str]
) -> None:
    needed = {part.tensor for part in parts}
    extra, missing = shapes.keys() - needed - ignored, needed - shapes.keys()
    if extra:
        found = [words for mark, words in _NOT_SUPPORTED.items() if any(mark in x for x in extra)]
        raise ModelFileError(
            f"{path} has {len(extra)} tensors that a model of its family has no place for "
            f"({_first(extra)}): {found[0] if found else 'take a model without them'}"
        )
    if missing:
        raise ModelFileError(
            f"{path} lacks {len(missing)} tensors that are needed to run it ({_first(missing)}); "
            "fetch it again, or convert it again"
        )
    for part in parts:
        if shapes[part.tensor] != part.shape:
            raise ModelFileError(
                f"{path}: tensor {part.tensor!r} has the shape {list(shapes[part.tensor])}, but "
                f"its measures ask for {list(part.shape)}"
            )


def _first(names: Set[str]) -> str:
    return ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")


def build(
    config: ModelConfig, parts: Parts, read: Callable[[str], Tensor], dtype: torch.dtype
) -> dict[str, Tensor]:
    """The weights themselves, in `dtype`; `read` gives a tensor by its name."""

    def rows(part: Part) -> Tensor:
        values = read(part.tensor).to(dtype)
        return values if part.rows is None else values[torch.from_numpy(part.rows)]

    return {
        name: rows(own[0]) if len(own) == 1 else torch.cat([rows(part) for part in own])
        for name, own in ((name, parts[name]) for name in weight_shapes(config))
    }
