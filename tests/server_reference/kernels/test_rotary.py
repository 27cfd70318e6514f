"""Norm, turn and store of heads, fused."""

from __future__ import annotations

import pytest
import torch

from tests.server_reference.kernels.interpreted import guarded, is_intact, shuffled

from server_reference.kernels import rotary  # isort: skip
from server_reference.kernels.reference.rotary import rotate_and_store as in_float64  # isort: skip
from server_reference.kernels.rope import rotations  # isort: skip

# In the interpreter bf16 is cut off, not rounded.
ERRORS = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}
FP8 = torch.float8_e4m3fn
CONTEXT, NUM_BLOCKS = 50, 3


def a_cache(num_kv_heads, head_dim, block_size, dtype):
    """Slots that hold NaN, so that a write into one shows, and a band around them."""
    shape = (NUM_BLOCKS, block_size, num_kv_heads, head_dim)
    values = guarded(torch.full(shape, torch.nan).to(torch.float32 if dtype == FP8 else dtype))
    return values.to(dtype) if dtype == FP8 else values


def inputs(
    num_tokens=3,
    *,
    heads=(4, 2),
    head_dim=8,
    block_size=4,
    dtype=torch.float32,
    cache_dtype=None,
    bias=False,
    norm=False,
    **others,
):
    num_q_heads, num_kv_heads = heads
    width = (num_q_heads + 2 * num_kv_heads) * head_dim
    cos, sin = rotations(theta=100.0, scaling=None, head_dim=head_dim, max_context=CONTEXT)
    positions = torch.randint(CONTEXT, (num_tokens,))
    slots = torch.randperm(NUM_BLOCKS * block_size)[:num_tokens]
    slots[1::3] = -1
    weights = {}
    if bias:
        weights["bias"] = guarded(torch.randn(width).to(dtype))
    if norm:
        weights |= {name: guarded(torch.randn(head_dim) + 4) for name in ("q_norm", "k_norm")}
        weights["eps"] = 1e-3
    return {
        "qkv": guarded(torch.randn(num_tokens, width).to(dtype)),
        "k_cache": a_cache(num_kv_heads, head_dim, block_size, cache_dtype or dtype),
        "v_cache": a_cache(num_kv_heads, head_dim, block_size, cache_dtype or dtype),
        "slots": guarded(slots),
        "cos": guarded(cos[positions, None]),
        "sin": guarded(sin[positions, None]),
        "num_q_heads": num_q_heads,
        **weights,
        **others,
    }


def assert_agrees(values, error):
    twin = values | {name: values[name].clone() for name in ("k_cache", "v_cache")}
    expected = in_float64(**twin)

    q = rotary.rotate_and_store(**values)

    torch.testing.assert_close(q, expected, rtol=error, atol=2 * error)
    for name in ("k_cache", "v_cache"):
        stored, wanted = values[name].float(), twin[name].float()
        step = 0.07 if values[name].dtype == FP8 else error  # of fp8, half of 2^-3
        torch.testing.assert_close(stored, wanted, rtol=2 * step, atol=2 * error, equal_nan=True)
        assert values[name].dtype == FP8 or is_intact(values[name])


@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({"num_tokens": 1}, id="one-token"),
        pytest.param({"heads": (2, 2)}, id="a-query-head-per-KV-head"),
        pytest.param({"heads": (3, 1)}, id="groups-of-three"),
        pytest.param({"heads": (14, 2), "head_dim": 64, "num_tokens": 2}, id="groups-of-seven"),
        pytest.param({"head_dim": 2}, id="one-pair"),
        pytest.param({"head_dim": 80, "num_tokens": 2}, id="no-power-of-two"),
        pytest.param({"head_dim": 256, "num_tokens": 2}, id="wide-heads"),
        pytest.param({"block_size": 1}, id="one-token-per-block"),
        pytest.param({"block_size": 7, "num_tokens": 9}, id="odd-blocks"),
        pytest.param({"bias": True}, id="bias"),
        pytest.param({"norm": True}, id="norm"),
        pytest.param({"norm": True, "bias": True, "head_dim": 6}, id="bias-and-norm"),
    ],
)
def test_agrees_with_the_twin(shape, dtype):
    assert_agrees(inputs(dtype=dtype, **shape), ERRORS[dtype])


@pytest.mark.parametrize("scales", [{}, {"k_scale": 0.03, "v_scale": 0.5}], ids=["", "scaled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_an_fp8_cache_agrees(dtype, scales):
    values = inputs(5, dtype=dtype, cache_dtype=FP8, norm=True, **scales)

    assert_agrees(values, ERRORS[dtype])


def test_every_number_becomes_the_nearest_of_fp8():
    """Ties go to even, what is beyond 448 is 448, and a NaN stays one."""
    codes = torch.arange(127, dtype=torch.uint8).view(FP8).float()
    numbers = torch.cat(
        (
            codes,
            (codes[1:] + codes[:-1]) / 2,
            ((codes[1:] + codes[:-1]) / 2).nextafter(torch.tensor(1e9)),
            ((codes[1:] + codes[:-1]) / 2).nextafter(torch.tensor(0.0)),
            torch.tensor([1e-30, 2.0**-10, 448.1, 464.0, 1e30, torch.inf, torch.nan]),
        )
    )
    numbers = torch.cat((numbers, -numbers))
    head_dim = len(numbers)
    values = inputs(1, heads=(1, 1), head_dim=head_dim, block_size=1, cache_dtype=FP8)
    values["qkv"][0, -head_dim:] = numbers
    values["slots"][:] = 1

    rotary.rotate_and_store(**values)

    expected = numbers.clamp(-448, 448).to(FP8).view(torch.uint8)
    stored = values["v_cache"][1, 0, 0].view(torch.uint8)
    assert torch.equal(stored[~numbers.isnan()], expected[~numbers.isnan()])
    assert values["v_cache"][1, 0, 0].float()[numbers.isnan()].isnan().all()


def test_a_slot_of_minus_one_is_nowhere():
    values = inputs(4)
    values["slots"][:] = -1

    rotary.rotate_and_store(**values)

    assert values["k_cache"].isnan().all()
    assert values["v_cache"].isnan().all()


def test_the_order_of_programs_does_not_matter():
    with shuffled(5):
        assert_agrees(inputs(9, norm=True), 2e-6)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param({"num_q_heads": 3}, "multiple of num_kv_heads", id="heads"),
        pytest.param({"num_q_heads": 6}, r"qkv must be contiguous \[any, 80\]", id="width"),
        pytest.param({"v_cache": torch.zeros(3, 4, 2, 6)}, "v_cache must be", id="other-cache"),
        pytest.param(
            {"k_cache": torch.zeros(3, 4, 2, 8).half()},
            "k_cache must be .* of float32 or float8",
            id="half",
        ),
        pytest.param(
            {"slots": torch.zeros(3).int()}, r"slots must be contiguous \[3\] of int64", id="int32"
        ),
        pytest.param({"sin": torch.zeros(50, 6)}, "sin must be", id="narrow-table"),
        pytest.param({"bias": torch.zeros(9)}, r"bias must be contiguous \[64\]", id="short-bias"),
        pytest.param(
            {"slots": torch.zeros(6).long()[::2]}, r"slots .* strides \(2,\)", id="slots-apart"
        ),
        pytest.param({"bias": torch.zeros(128)[::2]}, "bias must be contiguous", id="bias-apart"),
        pytest.param(
            {"q_norm": torch.zeros(8), "k_norm": torch.zeros(16)[::2]}, "k_norm", id="norm-apart"
        ),
        pytest.param({"num_q_heads": 0}, r"num_q_heads \(0\)", id="no-heads"),
        pytest.param({"k_scale": 0.0}, "k_scale must be above 0 and finite, not 0.0", id="scale"),
        pytest.param({"v_scale": float("nan")}, "v_scale must be above 0", id="no-scale"),
        pytest.param(inputs(dtype=torch.float64), "qkv must be .* of float16 or", id="fp64"),
        pytest.param({"k_cache": torch.zeros(4, 2, 8)}, r"k_cache .* \[4, 2, 8\]", id="dims"),
        pytest.param(
            {name: torch.zeros(3, 4, 2, 7) for name in ("k_cache", "v_cache")},
            "head_dim must be even",
            id="odd",
        ),
        pytest.param({"q_norm": torch.zeros(8)}, "pass both", id="one-norm"),
        pytest.param(
            {"q_norm": torch.zeros(8), "k_norm": torch.zeros(8).half()}, "k_norm", id="half-norm"
        ),
    ],
)
def test_what_does_not_fit_is_refused(changed, told):
    with pytest.raises(ValueError, match=told):
        rotary.rotate_and_store(**inputs() | changed)
