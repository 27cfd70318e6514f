"""Load a model to run it: weights, tokenizer, name."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..config import EngineConfig
from .gguf import GgufFile
from .gguf_models import config_of, weights_of
from .registry import resolve
from .tiny import TINY, tiny_weights
from .tokenizer import BpeTokenizer, ByteTokenizer, Tokenizer
from .transformer import Transformer
from .weight_cache import cached_weights

__all__ = ["LoadedModel", "load"]

_DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
_DETERMINISTIC_ROWS = 16


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run."""

    transformer: Transformer
    tokenizer: Tokenizer
    name: str


def load(config: EngineConfig) -> LoadedModel:
    """Load `config.model` in `config.dtype`, from the cache of converted weights if it can be.

    Raises:
        ModelUnavailableError: There is no such model, or it cannot be fetched.
        GgufError: Its file is damaged or of an unsupported family.
    """
    files = resolve(config.model)
    dtype = _DTYPES[config.dtype]
    pad_rows = _DETERMINISTIC_ROWS if config.numerics == "deterministic" else 1
    if files.gguf is None:
        transformer = Transformer(TINY, tiny_weights(dtype), pad_rows=pad_rows)
        return LoadedModel(transformer, ByteTokenizer(), files.name)
    file = GgufFile(files.gguf)
    model_config = config_of(file)
    weights = cached_weights(
        file.path, model_config, dtype, lambda: weights_of(file, model_config, dtype)
    )
    transformer = Transformer(model_config, weights, pad_rows=pad_rows)
    return LoadedModel(transformer, BpeTokenizer(file), files.name)
