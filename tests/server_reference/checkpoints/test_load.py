from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from server_reference.checkpoints.gguf import GgufError
from server_reference.checkpoints.load import LoadedModel, load
from server_reference.checkpoints.registry import ModelUnavailableError, front
from server_reference.config import EngineConfig
from tests.server_reference.checkpoints.gguf_files import write_gguf
from tests.server_reference.checkpoints.hub_models import IDS, peer, their_logits
from tests.server_reference.checkpoints.test_registry import a_folder
from tests.server_reference.conftest import Peer
from tests.server_reference.models.dense import all_logits, greedy
from tests.server_reference.text.texts import decoded, encoded

PROMPTS = [
    "Once upon a time",
    "def fibonacci(n):\n    ",
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        pytest.param("fp32", torch.float32, id="fp32"),
        pytest.param("bf16", torch.bfloat16, id="bf16"),
    ],
)
def test_tiny_is_loaded_in_its_dtype(dtype: str, expected: torch.dtype) -> None:
    model = load(EngineConfig(model="tiny", dtype=dtype))  # type: ignore[arg-type]  # a parameter

    assert model.name == "tiny"
    assert model.transformer.dtype == expected
    assert model.tokenizer.vocab_size == model.transformer.config.vocab_size


def test_a_file_gives_the_same_numbers_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "cache"))
    config = EngineConfig(model=str(write_gguf(tmp_path / "small.gguf")), dtype="fp32")
    first = all_logits(load(config).transformer, [0, 5, 9, 1])

    second = all_logits(load(config).transformer, [0, 5, 9, 1])

    assert len(list((tmp_path / "cache").rglob("*.weights"))) == 1
    assert torch.equal(first, second)


def test_a_folder_is_loaded_with_its_tokenizer(tmp_path: Path) -> None:
    folder, model = a_folder(tmp_path / "small"), peer("llama")

    loaded = load(EngineConfig(model=str(folder), dtype="fp32"))

    assert loaded.name == "small"
    assert loaded.tokenizer.eos_token_ids == {2, 3}
    ours = all_logits(loaded.transformer, IDS)
    torch.testing.assert_close(ours, their_logits(model), atol=1e-4, rtol=0)


@pytest.mark.parametrize("one_copy", [False, True])
def test_a_folder_that_is_quantised_is_converted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_copy: bool
) -> None:
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "cache"))
    folder = a_folder(tmp_path / "small")
    config = EngineConfig(model=str(folder), quantize="int8", one_copy=one_copy)
    first = all_logits(load(config).transformer, IDS)
    [cached] = (tmp_path / "cache").rglob("*.weights")
    made = cached.stat()

    second = all_logits(load(config).transformer, IDS)

    assert torch.equal(first, second)
    assert (cached.stat().st_ino, cached.stat().st_mtime_ns) == (made.st_ino, made.st_mtime_ns)


def test_a_folder_whose_weights_were_edited_gives_the_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file has its old size, and was given its old time."""
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "cache"))
    folder = a_folder(tmp_path / "small")
    config = EngineConfig(model=str(folder), quantize="int8")
    before = all_logits(load(config).transformer, IDS)
    path = folder / "model.safetensors"
    stat, weights = path.stat(), load_file(path)
    edited = {name: weight * 2 for name, weight in weights.items()}
    save_file(edited, path, metadata={"format": "pt"})
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    after = all_logits(load(config).transformer, IDS)

    assert (path.stat().st_size, path.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert not torch.allclose(before, after)


def test_a_folder_that_is_not_quantised_takes_no_room_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own files are mapped as they are."""
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "cache"))

    load(EngineConfig(model=str(a_folder(tmp_path / "small"))))

    assert list((tmp_path / "cache").rglob("*.weights")) == []


def test_a_missing_or_foreign_file_is_a_typed_error(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.gguf"
    foreign.write_text("not a model")

    with pytest.raises(ModelUnavailableError, match="there is no model"):
        load(EngineConfig(model=str(tmp_path / "none.gguf")))
    with pytest.raises(GgufError, match="is not a GGUF file"):
        load(EngineConfig(model=str(foreign)))


@pytest.fixture(scope="module")
def smollm2(smollm2_gguf: Path) -> LoadedModel:
    return load(EngineConfig(model="smollm2", dtype="fp32", numerics="deterministic"))


@pytest.mark.smollm2
@pytest.mark.parametrize("prompt", PROMPTS, ids=["story", "code", "chat"])
def test_smollm2s_logits_are_transformers(
    smollm2: LoadedModel, transformers_smollm2: Peer, prompt: str
) -> None:
    ids = encoded(smollm2.tokenizer, prompt)

    ours = all_logits(smollm2.transformer, ids)

    with torch.inference_mode():
        theirs = transformers_smollm2.model(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0)


@pytest.mark.smollm2
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_smollm2_knows_the_capital_of_france(smollm2_gguf: Path, dtype: str) -> None:
    model = load(EngineConfig(model="smollm2", dtype=dtype))  # type: ignore[arg-type]  # a parameter
    messages = [{"role": "user", "content": "What is the capital of France?"}]

    prompt = front("smollm2").chat_template.encode(model.tokenizer, messages)
    answer = decoded(model.tokenizer, greedy(model.transformer, prompt, 8))

    assert "Paris" in answer
