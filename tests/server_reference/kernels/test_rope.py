from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from server_reference.kernels.rope import RopeScaling, rotate_, rotations


def turns(scaling: RopeScaling | None) -> torch.Tensor:
    """Radians per token of each of eight pairs, read back from the second position."""
    cos, sin = rotations(theta=100.0, scaling=scaling, head_dim=16, max_context=2)
    return torch.atan2(sin[1, 8:], cos[1, 8:])


def rotated(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    copy = heads.clone()
    rotate_(copy, cos, sin)
    return copy


PLAIN = torch.tensor([100.0 ** (-pair / 8) for pair in range(8)])


def test_frequencies_fall_from_one_to_the_base() -> None:
    torch.testing.assert_close(turns(None), PLAIN)


def test_linear_slows_all_alike() -> None:
    torch.testing.assert_close(turns(RopeScaling(kind="linear", factor=4.0)), PLAIN / 4)


@pytest.mark.parametrize("kind", ["llama3", "yarn"])
def test_the_fast_are_kept_and_the_slow_are_slowed(kind: Any) -> None:
    scaling = RopeScaling(
        kind=kind, factor=4.0, original_context=40.0, beta_fast=4.0, attention_factor=1.0
    )

    slowed = PLAIN / turns(scaling)

    assert slowed[0] == pytest.approx(1.0)
    assert slowed[-1] == pytest.approx(4.0)
    assert (slowed.diff() >= -1e-5).all()
    assert ((slowed > 1.01) & (slowed < 3.99)).any()


def test_divisors_of_a_file_are_taken_as_they_are() -> None:
    divisors = tuple(1.0 + pair for pair in range(8))

    torch.testing.assert_close(
        turns(RopeScaling(kind="llama3", divisors=divisors)), PLAIN / torch.tensor(divisors)
    )


def test_yarn_enlarges_queries_and_keys_unless_told_by_how_much() -> None:
    assert RopeScaling(kind="yarn", factor=8.0).magnitude == pytest.approx(1 + 0.1 * math.log(8))
    assert RopeScaling(kind="yarn", factor=8.0, attention_factor=1.5).magnitude == 1.5
    assert RopeScaling(kind="yarn", factor=1.0).magnitude == 1.0
    assert RopeScaling(kind="linear", factor=8.0).magnitude == 1.0


def test_a_turn_keeps_lengths_and_depends_on_the_distance_only() -> None:
    cos, sin = rotations(theta=100.0, scaling=None, head_dim=16, max_context=20)
    q, k = torch.randn(2, 1, 1, 16, generator=torch.Generator().manual_seed(0))

    near = (rotated(q, cos[3], sin[3]) * rotated(k, cos[1], sin[1])).sum()
    far = (rotated(q, cos[19], sin[19]) * rotated(k, cos[17], sin[17])).sum()

    assert rotated(q, cos[7], sin[7]).norm() == pytest.approx(float(q.norm()), rel=1e-5)
    assert far == pytest.approx(float(near), rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"factor": 0.0}, "rope's factor must be above 0, not 0.0", id="no-factor"),
        pytest.param({"factor": math.nan}, "factor must be above 0", id="nan"),
        pytest.param({"attention_factor": math.inf}, "attention_factor must be", id="inf"),
        pytest.param({"high_freq_factor": 1.0}, r"high_freq_factor \(1.0\) must be", id="order"),
    ],
)
def test_numbers_out_of_range_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RopeScaling(kind="llama3", **change)  # type: ignore[arg-type]  # a parameter
