from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from server_reference.kernels.forms import why_not
from server_reference.kernels.linear import DenseLinear, PackedLinear, SwitchedLinear, TiledLinear

packs = pytest.mark.skipif(bool(why_not("bf16")), reason=f"no packing here: {why_not('bf16')}")


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("rows", [1, 3, 16, 40])
def test_padding_leaves_the_product_as_it_is(rows: int) -> None:
    weight, x = randn(8, 12), randn(rows, 12)

    y = DenseLinear(weight, pad_rows=16)(x)

    torch.testing.assert_close(y, functional.linear(x, weight))


@packs
@pytest.mark.parametrize("rows", [1, 16, 40])
def test_a_packed_matrix_gives_the_same_product(rows: int) -> None:
    weight, x = randn(48, 64).bfloat16(), randn(rows, 64).bfloat16()

    y = PackedLinear(weight)(x)

    torch.testing.assert_close(y, functional.linear(x, weight), atol=0.06, rtol=0.01)


class Counted:
    """A product of ones that notes the row counts that it is given."""

    in_features, out_features = 4, 2

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.rows.append(len(x))
        return x.sum(1, keepdim=True).expand(-1, 2)


def test_row_counts_go_to_the_form_that_is_faster() -> None:
    few, many = Counted(), Counted()
    linear = SwitchedLinear(few, many, most=4)

    for count in (1, 4, 5, 40):
        linear(torch.ones(count, 4))

    assert (few.rows, many.rows) == ([1, 4], [5, 40])


@pytest.mark.parametrize(
    ("rows", "tiles"),
    [
        pytest.param(1, 1, id="one"),
        pytest.param(16, 1, id="a-tile"),
        pytest.param(17, 2, id="one-more"),
        pytest.param(40, 3, id="ragged"),
    ],
)
def test_a_tiled_product_sees_whole_tiles_only(rows: int, tiles: int) -> None:
    counted = Counted()
    x = randn(rows, 4)

    y = TiledLinear(counted, rows=16)(x)

    assert counted.rows == [16] * tiles
    torch.testing.assert_close(y, x.sum(1, keepdim=True).expand(-1, 2))
