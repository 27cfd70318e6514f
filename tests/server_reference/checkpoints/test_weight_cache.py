from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from server_reference.checkpoints.weight_cache import cached_weights
from tests.server_reference.models.test_transformer import SMALL, some_weights


class Source:
    """A model's file, and how often its weights were converted."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "model.gguf"
        self.path.write_bytes(b"weights")
        self.cache = folder / "cache"
        self.conversions = 0

    def weights(self, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        def convert() -> dict[str, Tensor]:
            self.conversions += 1
            return some_weights(SMALL, dtype)

        return cached_weights(self.path, {"shapes": [1, (2, 3)]}, convert, name=str(dtype)[6:])

    def of_folder(self, files: list[Path]) -> None:
        def convert() -> dict[str, Tensor]:
            self.conversions += 1
            return some_weights(SMALL)

        cached_weights(self.path.parent, {}, convert, name="int8", files=files)

    def cached(self) -> Path:
        [path] = self.cache.rglob("*.weights")
        return path


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path / "cache"))
    return Source(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_second_time_weights_come_from_the_cache(source: Source, dtype: torch.dtype) -> None:
    source.weights(dtype)

    again = source.weights(dtype)

    expected = some_weights(SMALL, dtype)
    assert source.conversions == 1
    assert list(again) == list(expected)
    assert all(torch.equal(again[name], expected[name]) for name in expected)


def test_each_dtype_has_its_own_file(source: Source) -> None:
    source.weights(torch.float32)
    source.weights(torch.bfloat16)

    assert len(list(source.cache.rglob("*.weights"))) == 2


def test_matrices_of_all_kinds_are_mapped_as_they_were(source: Source) -> None:
    weights = {
        "codes": torch.tensor([[1, -2, 3]], dtype=torch.int8),
        "packed": torch.tensor([255, 0], dtype=torch.uint8),
        "scales": torch.tensor([[[1.5, -2.0]]], dtype=torch.bfloat16),
        "norm": torch.tensor([0.1]),
    }

    for _ in range(2):
        again = cached_weights(source.path, {}, lambda: dict(weights), name="mixed")

    assert list(again) == list(weights)
    assert all(torch.equal(again[name], weights[name]) for name in weights)
    assert all(again[name].dtype == weights[name].dtype for name in weights)
    assert all(again[name].data_ptr() % 64 == 0 for name in weights)


def test_weights_that_depend_on_something_else_are_converted_again(source: Source) -> None:
    source.weights()
    made = some_weights(SMALL)

    other = cached_weights(source.path, {"forms": "int4"}, lambda: made, name="float32")

    assert torch.equal(other["norm"], made["norm"])
    source.weights()
    assert source.conversions == 2


def test_a_source_that_changed_is_converted_again_in_place(source: Source) -> None:
    source.weights()
    os.utime(source.path, ns=(1, 1))

    source.weights()
    source.weights()

    assert source.conversions == 2
    assert source.cached().exists()


def test_a_source_whose_time_was_set_back_is_converted_again(source: Source) -> None:
    """As copying another model over it does, which has the same size."""
    before = source.path.stat()
    source.weights()
    source.path.write_bytes(b"WEIGHTS")
    os.utime(source.path, ns=(before.st_atime_ns, before.st_mtime_ns))

    source.weights()

    assert source.path.stat().st_mtime_ns == before.st_mtime_ns
    assert source.conversions == 2


def test_a_source_that_another_file_took_the_place_of_is_converted_again(source: Source) -> None:
    before = source.path.stat()
    source.weights()
    other = source.path.with_suffix(".new")
    other.write_bytes(b"WEIGHTS")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(source.path)

    source.weights()

    assert source.conversions == 2


@pytest.mark.parametrize("changed", [0, 1])
def test_a_folder_is_converted_again_when_one_of_its_files_changed(
    source: Source, tmp_path: Path, changed: int
) -> None:
    files = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    for file in files:
        file.write_bytes(b"a")

    source.of_folder(files)
    source.of_folder(files)
    assert source.conversions == 1
    files[changed].write_bytes(b"b")
    source.of_folder(files)

    assert source.conversions == 2


def _flip_last(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(_flip_last, id="one-bit-of-a-weight"),
        pytest.param(lambda content: content[:-100], id="cut-short"),
        pytest.param(lambda content: content + b"x", id="too-long"),
        pytest.param(lambda content: content[:10], id="within-the-length"),
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: b"X" + content[1:], id="foreign"),
        pytest.param(lambda content: content[:40] + b"\xff" + content[41:], id="header"),
        pytest.param(lambda content: content[:8] + b"\xff" * 8 + content[16:], id="length"),
    ],
)
def test_a_damaged_file_is_remade(source: Source, damage: Callable[[bytes], bytes]) -> None:
    source.weights()
    whole = source.cached().read_bytes()
    source.cached().write_bytes(damage(whole))

    weights = source.weights()

    assert source.conversions == 2
    assert torch.equal(weights["norm"], some_weights(SMALL)["norm"])
    assert source.cached().read_bytes() == whole


def test_a_cache_that_cannot_be_written_costs_only_time(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.cache.write_text("a file where the folder should be")

    weights = source.weights()

    assert torch.equal(weights["norm"], some_weights(SMALL)["norm"])
    assert "converted weights cannot be kept at" in caplog.text
