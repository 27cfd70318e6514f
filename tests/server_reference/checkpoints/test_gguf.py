from __future__ import annotations

import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Kind

from server_reference.checkpoints.gguf import GgufError, GgufFile, Metadata
from tests.server_reference.checkpoints.gguf_files import TOKENS, tensors, write_gguf


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "model.gguf", general__quick=True)


def test_metadata_comes_back_in_its_types(path: Path) -> None:
    metadata = GgufFile(path).metadata

    assert metadata.text("tokenizer.ggml.model") == "gpt2"
    assert metadata.integer("llama.block_count") == 2
    assert metadata.number("llama.attention.layer_norm_rms_epsilon") == pytest.approx(1e-5)
    assert metadata.flag("general.quick", default=False) is True
    assert metadata.texts("tokenizer.ggml.tokens") == TOKENS
    assert metadata.integers("tokenizer.ggml.token_type")[:4] == [3, 3, 4, 1]


def test_a_missing_value_is_the_default_or_an_error_naming_it(path: Path) -> None:
    metadata = GgufFile(path).metadata

    assert metadata.number("llama.rope.freq_base", 10_000.0) == 10_000.0
    with pytest.raises(GgufError, match=r"model\.gguf has no metadata 'llama\.none'"):
        metadata.integer("llama.none")


def test_a_number_that_is_no_float_is_an_error_naming_it(tmp_path: Path) -> None:
    """JSON has integers of any length."""
    metadata = Metadata(tmp_path / "config.json", {"rms_norm_eps": 10**400})

    with pytest.raises(GgufError, match=r"config.json: metadata 'rms_norm_eps' should be a number"):
        metadata.number("rms_norm_eps")


def test_a_value_of_another_type_is_an_error(path: Path) -> None:
    metadata = GgufFile(path).metadata

    with pytest.raises(GgufError, match=r"'llama\.block_count' should be text, not 2"):
        metadata.text("llama.block_count")
    with pytest.raises(GgufError, match="should be a list of integers"):
        metadata.integers("tokenizer.ggml.tokens")


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        pytest.param(Kind.F32, 0.0, id="F32"),
        pytest.param(Kind.F16, 2e-3, id="F16"),
        pytest.param(Kind.BF16, 2e-2, id="BF16"),
        pytest.param(Kind.Q8_0, 2e-2, id="Q8_0"),
        pytest.param(Kind.Q4_0, 0.5, id="Q4_0"),
        pytest.param(Kind.Q4_1, 0.5, id="Q4_1"),
    ],
)
def test_tensors_come_back_in_fp32(tmp_path: Path, kind: Kind, error: float) -> None:
    file = GgufFile(write_gguf(tmp_path / "model.gguf", kind=kind))

    values = file.tensor("blk.1.ffn_down.weight")

    assert values.dtype == np.float32
    np.testing.assert_allclose(values, tensors()["blk.1.ffn_down.weight"], atol=error, rtol=0)


@pytest.mark.parametrize("kind", [Kind.Q4_K, Kind.Q6_K], ids=["Q4_K", "Q6_K"])
def test_k_quants_come_back_row_by_row(tmp_path: Path, kind: Kind) -> None:
    num_bytes = gguf.quants.quant_shape_to_byte_shape((512,), kind)[0]
    raw = np.random.default_rng(0).integers(0, 60, (3, num_bytes)).astype(np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tensor("first", np.ones(5, np.float32))
    writer.add_tensor("odd.weight", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    values = GgufFile(tmp_path / "model.gguf").tensor("odd.weight")

    assert values.shape == (3, 512)
    assert len(np.unique(values[2])) > 16
    assert np.array_equal(values[2], gguf.quants.dequantize(raw[2], kind).ravel())


def test_headers_are_read_as_the_gguf_package_reads_them(path: Path) -> None:
    file, theirs = GgufFile(path), gguf.GGUFReader(path)

    assert set(file.tensors) == {tensor.name for tensor in theirs.tensors}
    assert all(field in file.metadata for field in theirs.fields if not field.startswith("GGUF."))


def test_a_missing_tensor_is_an_error_naming_it(path: Path) -> None:
    with pytest.raises(GgufError, match=r"model\.gguf has no tensor 'blk\.9\.attn_q\.weight'"):
        GgufFile(path).tensor("blk.9.attn_q.weight")


def test_a_type_that_cannot_be_dequantised_is_an_error_naming_it(tmp_path: Path) -> None:
    raw = np.zeros((2, 8), np.int32)
    path = write_gguf(tmp_path / "model.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("odd.weight", raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with pytest.raises(GgufError, match=r"'odd\.weight' is of type I32"):
        GgufFile(path).tensor("odd.weight")


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"there is no file .*none\.gguf"):
        GgufFile(tmp_path / "none.gguf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"PK\x03\x04 a zip file", "is not a GGUF file: it begins with", id="zip"),
        pytest.param(b"GGU", "is cut short", id="within-the-magic"),
        pytest.param(b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "is GGUF version 9", id="version"),
        pytest.param(b"GGUF" + struct.pack("<I", 3), "is cut short", id="within-the-counts"),
        pytest.param(
            b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 77), "unknown type 77", id="type"
        ),
        pytest.param(
            b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 62), "is cut short", id="endless-text"
        ),
    ],
)
def test_a_foreign_file_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)

    with pytest.raises(GgufError, match=message) as caught:
        GgufFile(path)

    assert str(path) in str(caught.value)


@pytest.mark.parametrize("part", [0.001, 0.05, 0.5, 0.999])
def test_a_truncated_file_is_one_clear_error(path: Path, tmp_path: Path, part: float) -> None:
    whole = path.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: int(len(whole) * part)])

    with pytest.raises(GgufError, match=r"cut\.gguf is cut short"):
        GgufFile(cut)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match="cannot be read"):
        GgufFile(tmp_path)


@pytest.mark.parametrize("at", range(4, 400, 7))
def test_a_damaged_byte_of_the_header_raises_nothing_else(
    path: Path, tmp_path: Path, at: int
) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(content)

    with suppress(GgufError):
        GgufFile(damaged)


def test_without_gguf_the_error_says_what_to_install(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.modules['gguf'] = None;"
        "from server_reference.checkpoints.gguf import GgufFile; GgufFile(Path(sys.argv[1]))"
    )

    ran = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)

    assert "reading a GGUF file needs gguf; install smartclient[server]" in ran.stderr
