"""Load a model to run it: weights, tokenizer, name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..config import EngineConfig
from .gguf import GgufFile
from .gguf_blocks import form_of, quantized_of
from .llama_gguf import config_of, parts_of, weights_of
from .numerics import asked_forms, check_config, computes_quantized, linears_of, matrices
from .quantized import Form, packed
from .registry import resolve
from .tiny import TINY, tiny_weights
from .tokenizer import BpeTokenizer, ByteTokenizer, Tokenizer
from .transformer import ModelConfig, Transformer, weight_shapes
from .weight_cache import cached_weights

__all__ = ["LoadedModel", "load"]

_DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run; `numerics` says in a line what it is computed in."""

    transformer: Transformer
    tokenizer: Tokenizer
    name: str
    numerics: str = ""


def load(config: EngineConfig) -> LoadedModel:
    """Load `config.model` in `config.dtype`, from the cache of converted weights if it can be.

    What it is computed in is logged.

    Raises:
        ModelUnavailableError: There is no such model, or it cannot be fetched.
        GgufError: Its file is damaged or of an unsupported family.
        NumericsError: It cannot be computed as the configuration asks.
    """
    check_config(config)
    torch.set_num_threads(config.threads)
    files = resolve(config.model)
    file = None if files.gguf is None else GgufFile(files.gguf)
    model = TINY if file is None else config_of(file)
    held = _held(file, model) if computes_quantized(config) else {}
    forms = asked_forms(model, config.quantize, held)

    def convert() -> dict[str, Tensor]:
        dtype = _DTYPES[config.dtype]
        weights = tiny_weights(dtype) if file is None else weights_of(file, model, dtype)
        return weights | _quantized(file, model, weights, forms, held, one_copy=config.one_copy)

    weights = convert() if file is None else _cached(file, model, config, forms, convert)
    linears, numerics = linears_of(config, model, weights, forms)
    _logger.info("%s is computed in %s", files.name, numerics)
    transformer = Transformer(model, weights, linears=linears)
    tokenizer = ByteTokenizer() if file is None else BpeTokenizer(file)
    return LoadedModel(transformer, tokenizer, files.name, numerics)


def _cached(
    file: GgufFile,
    model: ModelConfig,
    config: EngineConfig,
    forms: Mapping[str, Form],
    convert: Callable[[], dict[str, Tensor]],
) -> dict[str, Tensor]:
    asked: dict[str, object] = {"shapes": weight_shapes(model), "forms": forms}
    name: str = config.dtype
    if forms:  # their weights are in the order in which this torch packs them on this CPU
        asked |= {"torch": str(torch.__version__), "cpu": torch.backends.cpu.get_cpu_capability()}
        name += f"-{config.quantize or 'held'}{'-one-copy' if config.one_copy else ''}"
    return cached_weights(file.path, asked, convert, name=name)


def _held(file: GgufFile | None, model: ModelConfig) -> dict[str, Form]:
    """The matrices that the file holds quantised, and what they can be computed in."""
    if file is None:
        return {}
    parts = parts_of(model)
    found = {name: form_of(file, parts[name]) for name in matrices(model)}
    return {name: form for name, form in found.items() if form is not None}


def _quantized(
    file: GgufFile | None,
    model: ModelConfig,
    weights: dict[str, Tensor],
    forms: Mapping[str, Form],
    held: Mapping[str, Form],
    *,
    one_copy: bool,
) -> dict[str, Tensor]:
    """Weights and scales of what is computed quantised; with `one_copy` they replace others."""
    parts = parts_of(model)
    found = {}
    for name, form in forms.items():
        source = "embedding" if name == "head" and model.tie_embeddings else name
        if file is not None and name in held:
            own = quantized_of(file, parts[name], form)
        else:
            own = packed(weights[source], form)
        found[f"{name}.weights"], found[f"{name}.scales"] = own
        if one_copy and source != "embedding":
            del weights[source]
    return found
