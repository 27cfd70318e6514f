"""The gates of MLPs."""

from __future__ import annotations

import pytest
import torch

from tests.server_reference.kernels.interpreted import guarded, shuffled

from server_reference.kernels.activation import activate  # isort: skip
from server_reference.kernels.reference.activation import activate as in_float64  # isort: skip

# In the interpreter bf16 is cut off, not rounded.
ERRORS = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}

EVERY_ACTIVATION = pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])


def assert_agrees(gate_up, activation):
    expected = in_float64(gate_up, activation)

    error = ERRORS[gate_up.dtype]
    torch.testing.assert_close(activate(gate_up, activation), expected, rtol=error, atol=1e-7)


@EVERY_ACTIVATION
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((1, 2), id="one-value"),
        pytest.param((3, 2 * 1023), id="one-too-few-for-a-program"),
        pytest.param((3, 2 * 1024), id="exactly-one-program"),
        pytest.param((2, 2 * 1025), id="one-value-for-another"),
        pytest.param((0, 8), id="nothing"),
    ],
)
def test_agrees_with_the_twin(shape, dtype, activation):
    assert_agrees(guarded((3 * torch.randn(shape)).to(dtype)), activation)


@EVERY_ACTIVATION
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
def test_extremes_agree(dtype, activation):
    """What is far below zero is let through as nothing, and nothing overflows on the way."""
    gate = torch.tensor([0.0, 1e-7, 9.0, 30.0, 88.0, 300.0, 65000.0])
    gate = torch.cat((gate, -gate))

    assert_agrees(guarded(torch.stack((gate, torch.ones(14))).view(1, -1).to(dtype)), activation)


@EVERY_ACTIVATION
def test_not_a_number_stays_one(activation):
    gate_up = torch.tensor([[torch.nan, 1.0, 1.0, torch.nan, 1.0, 1.0]])

    assert activate(gate_up, activation).isnan().tolist() == [[True, False, False]]


def test_the_order_of_programs_does_not_matter():
    with shuffled(7):
        assert_agrees(guarded(torch.randn(5, 2 * 2000)), "silu")


@pytest.mark.parametrize(
    ("gate_up", "activation", "told"),
    [
        pytest.param(torch.zeros(2, 3), "silu", "two halves", id="odd"),
        pytest.param(torch.zeros(4, 2).T, "silu", "contiguous", id="strided"),
        pytest.param(torch.zeros(8), "silu", r"gate_up must be .*, not \[8\]", id="one-row"),
        pytest.param(torch.zeros(2, 4).int(), "silu", "not .* of int32", id="int32"),
        pytest.param(torch.zeros(2, 4).double(), "silu", "not .* of float64", id="float64"),
        pytest.param(torch.zeros(2, 4), "relu", "silu or gelu_tanh, not 'relu'", id="unknown"),
    ],
)
def test_what_does_not_fit_is_refused(gate_up, activation, told):
    with pytest.raises(ValueError, match=told):
        activate(gate_up, activation)
