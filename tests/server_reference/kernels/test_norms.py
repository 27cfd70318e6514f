"""RMSNorm fused with the addition before it."""

from __future__ import annotations

import pytest
import torch

from tests.server_reference.kernels.interpreted import guarded, is_intact, shuffled

from server_reference.kernels import norms  # isort: skip
from server_reference.kernels.reference.norms import add_and_normalise as in_float64  # isort: skip

# In the interpreter bf16 is cut off, not rounded.
ERRORS = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}


def inputs(num_tokens=3, hidden=20, *, dtype=torch.float32, add=True, post=False, scale=1.0):
    values = {
        "x": guarded(torch.randn(num_tokens, hidden) * scale),
        "weight": guarded(torch.randn(hidden) + 1),
    }
    if add:
        values["added"] = guarded((torch.randn(num_tokens, hidden) * scale).to(dtype))
    if post:
        values["post_weight"] = guarded(torch.randn(hidden) + 1)
    return values | {"eps": 1e-5, "dtype": dtype}


def assert_agrees(values, error):
    twin = values | {"x": values["x"].clone()}
    expected = in_float64(**twin)

    normed = norms.add_and_normalise(**values)

    torch.testing.assert_close(normed, expected, rtol=error, atol=error / 100)
    torch.testing.assert_close(values["x"], twin["x"], rtol=2e-6, atol=1e-6)
    assert is_intact(values["x"])


@pytest.mark.parametrize(
    "form",
    [
        pytest.param({"add": False}, id="plain"),
        pytest.param({}, id="after-an-addition"),
        pytest.param({"post": True}, id="after-that-of-a-norm"),
    ],
)
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((1, 16), id="one-row"),
        pytest.param((3, 1), id="one-value"),
        pytest.param((2, 15), id="one-too-few-for-a-power-of-two"),
        pytest.param((5, 17), id="one-too-many"),
        pytest.param((2, 576), id="SmolLM2"),
    ],
)
def test_agrees_with_the_twin(shape, dtype, form):
    assert_agrees(inputs(*shape, dtype=dtype, **form), ERRORS[dtype])


@pytest.mark.parametrize("scale", [1e-30, 1e-4, 1e4, 1e15], ids=str)
def test_extremes_agree(scale):
    """A row that is nearly nothing stays so, because of `eps`."""
    assert_agrees(inputs(scale=scale, post=True), 1e-5)


def test_the_order_of_programs_does_not_matter():
    with shuffled(3):
        assert_agrees(inputs(20, 8), 2e-6)


def test_nothing_to_normalise_is_nothing():
    values = inputs(0, 8)

    assert norms.add_and_normalise(**values).shape == (0, 8)


def test_not_a_number_stays_in_its_row():
    values = inputs(3, 8)
    values["added"][1, 2] = torch.nan

    normed = norms.add_and_normalise(**values)

    assert normed.isnan().all(-1).tolist() == [False, True, False]
    assert normed.isnan().any(-1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param({"x": torch.zeros(3, 20).half()}, "x must be .* of float32, not", id="half"),
        pytest.param({"x": torch.zeros(20, 3).T}, "x must be contiguous", id="strided"),
        pytest.param(
            {"weight": torch.zeros(19)}, r"weight must be contiguous \[20\]", id="short-weight"
        ),
        pytest.param({"weight": torch.zeros(40)[::2]}, "weight must be", id="weight-apart"),
        pytest.param({"post_weight": torch.zeros(40)[::2]}, "post_weight", id="post-apart"),
        pytest.param({"dtype": torch.int32}, "dtype must be fp16, bf16 or fp32", id="integers"),
        pytest.param({"added": torch.zeros(3, 20).long()}, "added must be", id="added-integers"),
        pytest.param({"added": torch.zeros(3, 19)}, "added must be", id="short-added"),
        pytest.param(
            {"added": None, "post_weight": torch.zeros(20)}, "pass added", id="nothing-added"
        ),
    ],
)
def test_what_does_not_fit_is_refused(changed, told):
    with pytest.raises(ValueError, match=told):
        norms.add_and_normalise(**inputs() | changed)
