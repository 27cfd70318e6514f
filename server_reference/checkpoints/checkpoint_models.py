"""Map a folder with safetensors to a model's measures and weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..models.transformer import ModelConfig
from . import families
from .checkpoint import Checkpoint
from .errors import ModelFileError
from .families import FAMILIES, Family
from .gguf import Metadata

__all__ = ["config_of", "weights_of"]

_ACTIVATIONS = {False: ("silu", "swish"), True: ("gelu_pytorch_tanh",)}
_DTYPES = ("F32", "F16", "BF16")


def config_of(checkpoint: Checkpoint) -> ModelConfig:
    """The measures that `config.json` gives.

    Raises:
        ModelFileError: The model is of another family, needs something that this transformer
            does not do, or a measure is missing.
    """
    fields, family = checkpoint.config, _family(checkpoint)
    _refuse_unsupported(fields, family)
    max_context = fields.integer("max_position_embeddings")
    ropes = fields.nested("rope_parameters" if "rope_parameters" in fields else "rope_scaling")
    theta = fields.number("rope_theta", 10_000.0)
    local = (
        fields.number("rope_local_base_freq", 10_000.0) if family is FAMILIES["gemma3"] else None
    )
    if "full_attention" in ropes or "sliding_attention" in ropes:
        near, ropes = ropes.nested("sliding_attention"), ropes.nested("full_attention")
        if near.text("rope_type", "default") != "default":
            raise ModelFileError(
                f"{fields.path} scales the rope of its windowed layers, which is not supported; "
                "take another model"
            )
        local = near.number("rope_theta", 10_000.0)
    return families.measures(
        _with_windows(fields, family),
        family,
        vocab_size=fields.integer("vocab_size"),
        tie_embeddings=fields.flag("tie_word_embeddings", default=family.is_gemma),
        rope_theta=ropes.number("rope_theta", theta),
        local_rope_theta=local,
        scaling=families.rope_scaling(fields.path, ropes, max_context=max_context),
    )


def _family(checkpoint: Checkpoint) -> Family:
    named = checkpoint.json("config.json").get("architectures")
    name = named[0] if isinstance(named, list) and named else None
    family = str(name).removesuffix("ForCausalLM").lower()
    if family not in FAMILIES or not str(name).endswith("ForCausalLM"):
        raise ModelFileError(
            f"{checkpoint.config.path} names the architecture {name!r}; take a causal language "
            f"model of {', '.join(FAMILIES)}"
        )
    return FAMILIES[family]


def _refuse_unsupported(fields: Metadata, family: Family) -> None:
    if "quantization_config" in fields:
        method = fields.nested("quantization_config").text("quant_method", "unknown")
        raise ModelFileError(
            f"{fields.path}: the weights are quantised by {method!r}, which cannot be read; take "
            "the model unquantised, or as a GGUF file"
        )
    share = fields.number("partial_rotary_factor", 1.0)
    share = fields.nested("rope_parameters").number("partial_rotary_factor", share)
    if share != 1:
        raise ModelFileError(
            f"{fields.path}: partial_rotary_factor is {share}; only rope over whole heads is "
            "supported: take another model"
        )
    known = _ACTIVATIONS[family.is_gemma]
    activation = fields.text("hidden_activation", fields.text("hidden_act", known[0]))
    if activation not in known:
        raise ModelFileError(
            f"{fields.path}: the activation is {activation!r}; take a model whose is {known[0]!r}"
        )


def _with_windows(fields: Metadata, family: Family) -> Metadata:
    """The fields, with the windows of all layers in the one form that `measures` reads."""
    values: dict[str, Any] = dict(fields.values)
    types = values.get("layer_types")
    if not fields.flag("use_sliding_window", default=family.has_windows):
        values["sliding_window"] = 0
    elif isinstance(types, list):
        kinds = sorted(set(map(str, types)))
        if not set(kinds) <= {"sliding_attention", "full_attention"}:
            raise ModelFileError(
                f"{fields.path}: layer_types has the kinds {kinds}; take a model of "
                "'full_attention' and 'sliding_attention'"
            )
        values["sliding_window_pattern"] = [one == "sliding_attention" for one in types]
    elif "max_window_layers" in values:
        first = fields.integer("max_window_layers")
        layers = range(fields.integer("num_hidden_layers"))
        values["sliding_window_pattern"] = [at >= first for at in layers]
    return Metadata(fields.path, values, error=ModelFileError)


def weights_of(
    checkpoint: Checkpoint, config: ModelConfig, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The weights under the transformer's names, in `dtype`.

    Raises:
        ModelFileError: A file is missing or damaged, or its tensors are not the model's.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    readers: dict[str, Callable[[str], Tensor]] = {}
    for path, promised in checkpoint.shards().items():
        file = _open(path)
        held = set(file.keys())
        lost = [name for name in promised or () if name not in held]
        if lost:
            raise ModelFileError(f"{path} lacks {len(lost)} tensors of the index ({lost[0]}, …)")
        for name in held if promised is None else promised:
            shapes[name], readers[name] = _shape(path, file, name), file.get_tensor
    ignored = {name for name in shapes if name.endswith("rotary_emb.inv_freq")}
    ignored |= {"lm_head.weight"} if config.tie_embeddings else set()
    parts = families.parts_of(checkpoint.folder, config, shapes, layout="folder", ignored=ignored)
    return families.build(config, parts, lambda name: readers[name](name), dtype)


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is damaged: {error}; fetch it again") from error


def _shape(path: Path, file: Any, name: str) -> tuple[int, ...]:
    tensor = file.get_slice(name)
    if tensor.get_dtype() not in _DTYPES:
        raise ModelFileError(
            f"{path}: tensor {name!r} is of type {tensor.get_dtype()}; take the model in one of "
            f"{', '.join(_DTYPES)}"
        )
    return tuple(tensor.get_shape())
