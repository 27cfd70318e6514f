"""What tests of the server share: the real model, and its peer in transformers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gguf
import pytest

from server_reference.checkpoints.registry import ModelUnavailableError, resolve


class Peer:
    """SmolLM2 as transformers reads it from the same file, in fp32.

    Each part is read when a test first asks for it: that takes transformers seconds.
    """

    def __init__(self, file: Path) -> None:
        self._place = {"gguf_file": file.name, "local_files_only": True}
        self._folder = str(file.parent)

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        with _transformers_ways():
            return AutoTokenizer.from_pretrained(self._folder, **self._place)

    @cached_property
    def model(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        with _transformers_ways():
            model: Any = AutoModelForCausalLM.from_pretrained(
                self._folder, dtype=torch.float32, **self._place
            )
        return model.eval()


# Else the file is parsed four times, and a table of names made for each of 397 modules.
_reader = cache(gguf.GGUFReader)
_name_map = cache(gguf.get_tensor_name_map)


@contextmanager
def _transformers_ways() -> Iterator[None]:
    """Let it warn, and do what it repeats once."""
    with (
        warnings.catch_warnings(),
        patch.object(gguf, "GGUFReader", _reader),
        patch.object(gguf, "get_tensor_name_map", _name_map),
    ):
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The model's file, fetched once; without it the test is skipped, which CI forbids."""
    try:
        files = resolve("smollm2")
    except ModelUnavailableError as error:
        pytest.skip(str(error))
    assert files.gguf is not None
    return files.gguf


@pytest.fixture(scope="session")
def transformers_smollm2(smollm2_gguf: Path) -> Peer:
    """The independent reader that our numbers are compared with."""
    return Peer(smollm2_gguf)
