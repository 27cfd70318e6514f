"""What tests of the server share: the real model, and its peer in transformers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from server_reference.models.registry import ModelUnavailableError, resolve


class Peer:
    """SmolLM2 as transformers reads it from the same file, in fp32.

    Each part is read when a test first asks for it: that takes transformers ten seconds.
    """

    def __init__(self, gguf: Path) -> None:
        self._place = {"gguf_file": gguf.name, "local_files_only": True}
        self._folder = str(gguf.parent)

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        with _other_peoples_warnings():
            return AutoTokenizer.from_pretrained(self._folder, **self._place)

    @cached_property
    def model(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        with _other_peoples_warnings():
            model: Any = AutoModelForCausalLM.from_pretrained(
                self._folder, dtype=torch.float32, **self._place
            )
        return model.eval()


@contextmanager
def _other_peoples_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The model's file, fetched once; without it the test is skipped, which CI forbids."""
    try:
        files = resolve("smollm2", progress=lambda done, total: None)
    except ModelUnavailableError as error:
        pytest.skip(str(error))
    assert files.gguf is not None
    return files.gguf


@pytest.fixture(scope="session")
def transformers_smollm2(smollm2_gguf: Path) -> Peer:
    """The independent reader that our numbers are compared with."""
    return Peer(smollm2_gguf)
