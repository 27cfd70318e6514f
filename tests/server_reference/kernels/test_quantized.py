from __future__ import annotations

import pytest
import torch
from torch import Tensor

from server_reference.kernels.forms import why_not
from server_reference.kernels.quantized import (
    GROUP,
    Codes,
    Form,
    Int4Linear,
    Int8Linear,
    int4_codes,
    packed,
)

NO_INT4, NO_INT8 = why_not("int4"), why_not("int8")
int4 = pytest.mark.skipif(bool(NO_INT4), reason=f"no int4 products here: {NO_INT4}")
int8 = pytest.mark.skipif(bool(NO_INT8), reason=f"no int8 products here: {NO_INT8}")
FORMS = [pytest.param("int4", marks=int4), pytest.param("int8", marks=int8)]


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def linear(form: Form, weight: Tensor) -> Int4Linear | Int8Linear:
    return (Int4Linear if form == "int4" else Int8Linear)(*packed(weight, form))


def share_of_error(y: Tensor, exact: Tensor) -> float:
    return float((y.float() - exact).norm() / exact.norm())


def test_groups_are_rounded_to_16_steps_between_their_ends() -> None:
    weight = randn(8, 4 * GROUP)

    codes, scales, offsets = int4_codes(weight)

    back = codes.view(8, 4, GROUP) * scales.unsqueeze(-1) + offsets.unsqueeze(-1)
    error = (back - weight.view(8, 4, GROUP)).abs()
    assert codes.view(8, 4, GROUP).amin(-1).max() == 0
    assert codes.view(8, 4, GROUP).amax(-1).min() == 15
    assert (error <= scales.unsqueeze(-1) / 2 + 1e-6).all()


@int4
def test_4_bits_whose_scales_bf16_holds_are_exact() -> None:
    """Codes are not rounded again: only scales, offsets and the output can be."""
    chance = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 16, (32, 2 * GROUP), generator=chance, dtype=torch.uint8)
    scales, offsets = torch.full((32, 2), 0.25), torch.full((32, 2), -1.5)
    scales[3, 1], offsets[7, 0] = 2.0, 0.5
    identity = torch.eye(2 * GROUP).bfloat16()

    y = Int4Linear(*packed(Codes(codes, scales, offsets), "int4"))(identity)

    exact = codes.view(32, 2, GROUP) * scales.unsqueeze(-1) + offsets.unsqueeze(-1)
    assert torch.equal(y.float(), exact.view(32, -1).T)


@int8
def test_8_bits_and_rows_as_two_halves_lose_less_than_bf16_holds() -> None:
    """Weights that int8 holds exactly: what is left is the rounding of `x` to 15 bits."""
    chance = torch.Generator().manual_seed(0)
    codes = torch.randint(-127, 128, (48, 64), generator=chance).float()
    codes[:, 0] = 127
    x = randn(5, 64).bfloat16()

    y = Int8Linear(*packed(codes * 0.01, "int8"), out_dtype=torch.float32)(x)

    assert y.dtype == torch.float32
    assert share_of_error(y, x.float() @ (codes * 0.01).T) < 2e-4


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize(("form", "most"), [("int4", 0.13), ("int8", 0.012)])
def test_products_are_those_of_the_rounded_matrix(form: Form, most: float, rows: int) -> None:
    if why_not(form):
        pytest.skip(why_not(form))
    weight, x = randn(64, 128), randn(rows, 128).bfloat16()

    y = linear(form, weight)(x)

    assert y.dtype == torch.bfloat16
    assert y.shape == (rows, 64)
    assert share_of_error(y, x.float() @ weight.T) < most


@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_is_not_numbers_leaves_the_others_alone(form: Form) -> None:
    own = linear(form, randn(64, 128))
    x = randn(3, 128).bfloat16()
    broken = x.clone()
    broken[1, 5] = float("nan")

    y = own(broken)

    assert y[1].isnan().any()
    assert torch.equal(y[[0, 2]], own(x)[[0, 2]])


@pytest.mark.parametrize("form", FORMS)
def test_rows_may_lie_apart(form: Form) -> None:
    own, x = linear(form, randn(64, 128)), randn(4, 256).bfloat16()[:, :128]

    assert torch.equal(own(x), own(x.contiguous()))


@pytest.mark.parametrize("form", FORMS)
def test_zeros_stay_zeros(form: Form) -> None:
    assert not linear(form, torch.zeros(32, 64))(randn(2, 64).bfloat16()).any()
    assert not linear(form, randn(32, 64))(torch.zeros(2, 64).bfloat16()).any()
