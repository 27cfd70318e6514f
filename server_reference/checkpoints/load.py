"""Load a model to run it: weights, tokenizer, name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..config import EngineConfig
from ..kernels import eager
from ..kernels.operations import Operations
from ..kernels.quantized import Form
from ..models.numerics import (
    asked_forms,
    check_config,
    computes_quantized,
    device_of,
    linears_of,
    matrices,
    pad_rows,
    quantized,
)
from ..models.transformer import ModelConfig, Transformer, weight_shapes
from ..text.tokenizer import ByteTokenizer, Tokenizer
from . import checkpoint_models
from .checkpoint import Checkpoint
from .gguf import GgufFile
from .gguf_blocks import form_of, quantized_of
from .gguf_models import config_of, parts_of, weights_of
from .registry import resolve
from .tiny import TINY, tiny_weights
from .tokenizer_files import checkpoint_tokenizer, gguf_tokenizer
from .weight_cache import cached_weights

__all__ = ["LoadedModel", "load"]

_DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run; `numerics` says in a line what it is computed in."""

    transformer: Transformer
    tokenizer: Tokenizer
    name: str
    numerics: str = ""


def load(config: EngineConfig) -> LoadedModel:
    """Load `config.model` in `config.dtype`, from the cache of converted weights if it can be.

    Raises:
        ModelUnavailableError: There is no such model, or it cannot be fetched.
        ModelFileError: Its files are damaged or of an unsupported family.
        NumericsError: It cannot be computed as the configuration asks.
    """
    check_config(config)
    torch.set_num_threads(config.threads)
    files = resolve(config.model)
    tokenizer: Tokenizer
    dtype = _DTYPES[config.dtype]
    if files.folder is not None:
        checkpoint = Checkpoint(files.folder)
        model, tokenizer = checkpoint_models.config_of(checkpoint), checkpoint_tokenizer(checkpoint)
        forms, weights = _of_folder(config, checkpoint, model)
    elif files.gguf is None:
        model, tokenizer = TINY, ByteTokenizer()
        forms = asked_forms(model, config.quantize, {})
        weights = quantized(config, model, tiny_weights(dtype), forms)
    else:
        file = GgufFile(files.gguf)
        model, tokenizer = config_of(file), gguf_tokenizer(file)
        forms, weights = _of_gguf(config, file, model)
    device = device_of(config)
    if device.type != "cpu":
        weights = {name: weight.to(device) for name, weight in weights.items()}
    linears, numerics = linears_of(config, model, weights, forms)
    transformer = Transformer(
        model,
        weights,
        linears=linears,
        pad_rows=pad_rows(config),
        operations=_operations(device, jit=config.jit),
    )
    return LoadedModel(transformer, tokenizer, files.name, numerics)


def _operations(device: torch.device, *, jit: bool) -> Operations:
    if device.type == "cpu":
        return eager
    from ..kernels import fused, launch  # which need triton

    if jit:
        launch.allow_jit()
    return fused


def _of_folder(
    config: EngineConfig, checkpoint: Checkpoint, model: ModelConfig
) -> tuple[dict[str, Form], dict[str, Tensor]]:
    """What is computed quantised, and all weights; from the cache only where some are."""
    forms = asked_forms(model, config.quantize, {})

    def convert() -> dict[str, Tensor]:
        dense = checkpoint_models.weights_of(checkpoint, model, _DTYPES[config.dtype])
        return quantized(config, model, dense, forms)

    if not forms:
        return forms, convert()
    files = checkpoint.weight_files()
    return forms, _cached(config, checkpoint.folder, model, forms, convert, files=files)


def _of_gguf(
    config: EngineConfig, file: GgufFile, model: ModelConfig
) -> tuple[dict[str, Form], dict[str, Tensor]]:
    """What is computed quantised, and all weights, from the cache if they can be."""
    parts = parts_of(file, model)
    held: dict[str, Form] = {}
    if computes_quantized(config):
        found = {name: form_of(file, parts[weight]) for name, weight in matrices(model).items()}
        held = {name: form for name, form in found.items() if form is not None}
    forms = asked_forms(model, config.quantize, held)

    def read(name: str) -> tuple[Tensor, Tensor] | None:
        own = parts[matrices(model)[name]]
        return quantized_of(file, own, forms[name]) if name in held else None

    def convert() -> dict[str, Tensor]:
        dense = weights_of(file, model, _DTYPES[config.dtype])
        return quantized(config, model, dense, forms, read)

    return forms, _cached(config, file.path, model, forms, convert)


def _cached(
    config: EngineConfig,
    source: Path,
    model: ModelConfig,
    forms: dict[str, Form],
    convert: Callable[[], dict[str, Tensor]],
    *,
    files: Sequence[Path] = (),
) -> dict[str, Tensor]:
    asked: dict[str, object] = {"shapes": weight_shapes(model), "forms": forms}
    name: str = config.dtype
    if forms:  # their weights are in the order in which this torch packs them on this CPU
        asked |= {"torch": str(torch.__version__), "cpu": torch.backends.cpu.get_cpu_capability()}
        name += f"-{config.quantize or 'held'}{'-one-copy' if config.one_copy else ''}"
    return cached_weights(source, asked, convert, name=name, files=files)
