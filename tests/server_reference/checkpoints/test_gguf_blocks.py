from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from server_reference.checkpoints.families import Part
from server_reference.checkpoints.gguf import GgufFile
from server_reference.checkpoints.gguf_blocks import form_of, quantized_of
from server_reference.kernels.forms import why_not
from server_reference.kernels.quantized import Form, Int4Linear

ROWS, COLUMNS = 32, 512
Kind = GGMLQuantizationType


def part(tensor: str, rows: NDArray[np.intp] | None = None) -> Part:
    return Part(tensor, (ROWS, COLUMNS), rows)


def a_file(path: Path, **kinds: Kind) -> GgufFile:
    """A file with one random matrix of each kind, under the given names."""
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    for name, kind in kinds.items():
        writer.add_tensor(name, _blocks(random, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufFile(path)


def _blocks(random: np.random.Generator, kind: Kind) -> NDArray[np.generic]:
    if kind in (Kind.Q4_K, Kind.Q6_K):  # which the package only reads: any bytes are codes
        block_len, block_bytes = GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (ROWS * COLUMNS // block_len, block_bytes), np.uint8)
        scales = random.uniform(0.001, 0.1, (len(blocks), 2)).astype(np.float16).view(np.uint8)
        if kind is Kind.Q4_K:
            blocks[:, :4] = scales
        else:
            blocks[:, -2:] = scales[:, :2]
        return blocks.reshape(ROWS, -1)
    values = random.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    return gguf.quants.quantize(values, kind)


@pytest.mark.skipif(bool(why_not("int4")), reason=f"no int4 products here: {why_not('int4')}")
@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q4_K])
def test_4_bit_blocks_are_taken_as_they_are(tmp_path: Path, kind: Kind) -> None:
    """A product with the identity gives the matrix back; a wrong code would be a tenth off."""
    file = a_file(tmp_path / "a.gguf", matrix=kind)

    y = Int4Linear(*quantized_of(file, [part("matrix")], "int4"))(torch.eye(COLUMNS).bfloat16())

    exact = torch.from_numpy(file.tensor("matrix")).T
    assert (y - exact).norm() < 0.006 * exact.norm()


def test_rows_are_taken_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    file = a_file(tmp_path / "a.gguf", first=Kind.Q4_1, second=Kind.Q4_0)
    turned = np.arange(ROWS)[::-1].copy()

    plain = quantized_of(file, [part("first"), part("second")], "int4")[1]
    ordered = quantized_of(file, [part("first", turned), part("second")], "int4")[1]

    assert torch.equal(ordered[:, :ROWS], plain[:, :ROWS].flip(1))
    assert torch.equal(ordered[:, ROWS:], plain[:, ROWS:])


def test_other_kinds_are_rounded_to_8_bits_by_rows(tmp_path: Path) -> None:
    file = a_file(tmp_path / "a.gguf", eight=Kind.Q8_0, six=Kind.Q6_K)

    codes, scales = quantized_of(file, [part("eight"), part("six")], "int8")

    exact = torch.cat([torch.from_numpy(file.tensor(name)) for name in ("eight", "six")])
    assert ((codes * scales.unsqueeze(1) - exact).abs() <= scales.unsqueeze(1) * 0.501).all()


@pytest.mark.parametrize(
    ("kinds", "form"),
    [
        pytest.param([Kind.Q4_0, Kind.Q4_K], "int4", id="4-bits"),
        pytest.param([Kind.Q4_K, Kind.Q6_K], "int8", id="4-and-6-bits"),
        pytest.param([Kind.Q8_0], "int8", id="8-bits"),
        pytest.param([Kind.Q8_0, Kind.F16], None, id="one-unquantised"),
        pytest.param([Kind.BF16], None, id="bf16"),
    ],
)
def test_a_matrix_is_computed_in_what_its_parts_hold(
    tmp_path: Path, kinds: list[Kind], form: Form | None
) -> None:
    names = {f"part{at}": kind for at, kind in enumerate(kinds)}
    file = a_file(tmp_path / "a.gguf", **names)

    assert form_of(file, [part(name) for name in names]) == form
