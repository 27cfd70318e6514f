"""What tests of the server share: the real model, and its peer in transformers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from server_reference.models.registry import ModelUnavailableError, resolve


@dataclass(frozen=True)
class Peer:
    """SmolLM2 as transformers reads it from the same file, in fp32."""

    model: Any
    tokenizer: Any


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
def transformers_smollm2(smollm2_gguf: Path) -> Iterator[Peer]:
    """The independent reader that our numbers are compared with."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # another project's
        patch.setenv("HF_HUB_OFFLINE", "1")
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder, file = str(smollm2_gguf.parent), smollm2_gguf.name
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=file, dtype=torch.float32
        )
        yield Peer(model.eval(), tokenizer)
