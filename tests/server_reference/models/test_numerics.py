from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from server_reference.config import EngineConfig
from server_reference.kernels.forms import why_not
from server_reference.kernels.quantized import Form, packed
from server_reference.models.numerics import (
    NumericsError,
    asked_forms,
    check_config,
    check_rows,
    device_of,
    linears_of,
    matrices,
    quantized,
)
from server_reference.models.transformer import ModelConfig
from tests.server_reference.models.test_transformer import SMALL, some_weights

WIDE = replace(SMALL, hidden_size=64, intermediate_size=96, vocab_size=64)
BF16 = EngineConfig()
here = pytest.mark.skipif(
    bool(why_not("int4") or why_not("int8") or why_not("bf16")),
    reason="this machine lacks some of the products",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMARTCLIENT_CACHE", str(tmp_path))
    return tmp_path / "weights" / "row-counts.json"


def with_forms(model: ModelConfig, forms: Mapping[str, Form]) -> dict[str, Tensor]:
    weights = some_weights(model, torch.bfloat16)
    for name, form in forms.items():
        weights[f"{name}.weights"], weights[f"{name}.scales"] = packed(weights[name], form)
    return weights


@pytest.mark.parametrize(
    ("model", "device", "expected"),
    [
        pytest.param("smollm2", "auto", "cuda", id="taken"),
        pytest.param("smollm2", "cpu", "cpu", id="not-wanted"),
        pytest.param("tiny", "auto", "cpu", id="no-kernels"),
        pytest.param("tiny", "cuda", "cuda", id="asked-for"),
    ],
)
def test_where_there_is_a_gpu_a_model_of_a_size_that_it_has_kernels_for_runs_on_it(
    monkeypatch, model, device, expected
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    assert device_of(EngineConfig(model=model, device=device)).type == expected


@pytest.mark.parametrize(
    ("quantize", "held", "expected"),
    [
        pytest.param(None, {}, {}, id="nothing"),
        pytest.param(None, {"layers.0.down": "int8"}, {"layers.0.down": "int8"}, id="held"),
        pytest.param("int8", {}, {"layers.0.down": "int8", "head": "int8"}, id="int8"),
        pytest.param("int4", {}, {"layers.0.down": "int4", "head": "int8"}, id="8-for-the-head"),
        pytest.param("int4", {"head": "int4"}, {"head": "int4"}, id="a-head-held-in-4"),
        pytest.param("int4", {"layers.0.down": "int8"}, {"layers.0.down": "int8"}, id="kept"),
    ],
)
def test_matrices_are_quantised_as_held_or_asked(
    quantize: Form | None, held: dict[str, Form], expected: dict[str, Form]
) -> None:
    forms = asked_forms(WIDE, quantize, held)

    assert expected.items() <= forms.items()
    assert len(forms) == (2 * 4 + 1 if quantize else len(held))


def test_rows_that_do_not_divide_into_groups_get_8_bits() -> None:
    odd = replace(WIDE, intermediate_size=48)

    forms = asked_forms(odd, "int4", {})

    assert forms["layers.0.down"] == "int8"
    assert forms["layers.0.gate_up"] == "int4"


@pytest.mark.parametrize("exact", [{"dtype": "fp32"}, {"numerics": "deterministic"}])
@pytest.mark.parametrize("option", [{"quantize": "int8"}, {"one_copy": True}])
def test_options_that_contradict_each_other_are_refused(
    exact: dict[str, str], option: dict[str, object]
) -> None:
    with pytest.raises(NumericsError, match=r"needs dtype='bf16', numerics='fast' and a CPU, not "):
        check_config(EngineConfig(**exact, **option))  # type: ignore[arg-type]  # parameters


@pytest.mark.parametrize("tied", [False, True])
def test_one_copy_leaves_no_dense_matrix_but_the_embedding(tied: bool) -> None:
    model = replace(WIDE, tie_embeddings=tied)
    forms = asked_forms(model, "int8", {})

    kept = {
        one_copy: quantized(
            replace(BF16, one_copy=one_copy), model, some_weights(model, torch.bfloat16), forms
        )
        for one_copy in (False, True)
    }

    gone = set(matrices(model).values()) - {"embedding"}
    assert kept[False].keys() - kept[True].keys() == gone
    assert "embedding" in kept[True]


@here
@pytest.mark.parametrize("form", ["int4", "int8"])
@pytest.mark.parametrize("one_copy", [False, True])
def test_every_form_gives_the_product(cache: Path, form: Form, one_copy: bool) -> None:
    forms = {"layers.0.down": form}
    weights = with_forms(WIDE, forms)
    dense = weights["layers.0.down"].float()
    if one_copy:
        del weights["layers.0.down"]
    x = torch.randn(70, 96, generator=torch.Generator().manual_seed(0)).bfloat16()

    linears, line = linears_of(replace(BF16, one_copy=one_copy), WIDE, weights, forms)

    for rows in (1, 70):
        exact = x[:rows].float() @ dense.T
        error = (linears["layers.0.down"](x[:rows]) - exact).norm()
        assert error < 0.15 * exact.norm()
    assert f"1 x {form} 64x96" in line
    assert ("rows, packed bf16 above" in line) != one_copy


@here
def test_row_counts_are_measured_once_for_a_machine(cache: Path) -> None:
    forms: dict[str, Form] = {"layers.0.down": "int4", "layers.1.down": "int4"}
    weights = with_forms(WIDE, forms)
    linears_of(BF16, WIDE, weights, forms)
    [[machine, counts]] = json.loads(cache.read_text()).items()
    assert counts.keys() == {"int4 64x96"}
    cache.write_text(json.dumps({machine: {"int4 64x96": 7}, "another": {}}))

    line = linears_of(BF16, WIDE, weights, forms)[1]

    assert "2 x int4 64x96 up to 7 rows, packed bf16 above" in line


@here
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"m": 3}'])
def test_damaged_row_counts_are_measured_again(cache: Path, content: bytes) -> None:
    cache.parent.mkdir()
    cache.write_bytes(content)
    forms: dict[str, Form] = {"layers.0.down": "int8"}

    linears_of(BF16, WIDE, with_forms(WIDE, forms), forms)

    [counts] = json.loads(cache.read_text()).values()
    assert counts.keys() == {"int8 64x96"}


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_deterministic_products_are_the_same_for_any_row_count(dtype: str) -> None:
    config = EngineConfig(dtype=dtype, numerics="deterministic")  # type: ignore[arg-type]  # a parameter

    linears, line = linears_of(config, WIDE, some_weights(WIDE, _dtype(dtype)), {})

    assert line == f"deterministic: {dtype}, 16 rows at a time; KV {dtype}"
    x = torch.randn(300, 64).to(_dtype(dtype))
    together = linears["layers.0.qkv"](x)
    assert all(
        torch.equal(linears["layers.0.qkv"](x[at : at + count]), together[at : at + count])
        for count in (1, 7, 16, 33, 48, 100)
        for at in (0, 5, 199)
    )


def _dtype(name: str) -> torch.dtype:
    return torch.float32 if name == "fp32" else torch.bfloat16


def test_a_product_whose_rows_depend_on_each_other_is_refused() -> None:
    """fp32 products without padding take another path for few rows on every machine known."""
    config = EngineConfig(dtype="fp32", numerics="fast")

    with pytest.raises(NumericsError, match=r"matrix of 960x576 in fp32 gives \d+ rows other"):
        check_rows(config, [(960, 576)])


class AnotherPath(TorchFunctionMode):
    """A machine that computes some rows of products with matrices of one shape otherwise."""

    def __init__(self, shape: tuple[int, int], is_other: Callable[[int, int], bool]) -> None:
        super().__init__()
        self.shape, self.is_other = shape, is_other

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is not functional.linear or args[1].shape != self.shape:
            return found
        others = [self.is_other(row, len(found)) for row in range(len(found))]
        return found * (1 + 2**-20 * torch.tensor(others)[:, None])


@pytest.mark.parametrize("shape", [(64, 32), (64, 64), (192, 64), (64, 96)])
@pytest.mark.parametrize(
    "is_other",
    [
        pytest.param(lambda row, num_rows: num_rows <= 16, id="few"),
        pytest.param(lambda row, num_rows: row < 16, id="first"),
    ],
)
def test_every_shape_of_the_model_is_checked_when_it_starts(
    shape: tuple[int, int], is_other: Callable[[int, int], bool]
) -> None:
    config = EngineConfig(dtype="fp32", numerics="deterministic")
    weights = some_weights(WIDE, torch.float32)
    refused = pytest.raises(NumericsError, match=f"{shape[0]}x{shape[1]} in fp32 gives 1 rows")

    with AnotherPath(shape, is_other), refused:
        linears_of(config, WIDE, weights, {})
