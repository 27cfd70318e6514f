"""The default numerics of the real model stay close to fp32, token by token and whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import numerics
from benchmarks.figures import Figure


@pytest.fixture(scope="module")
def figures(smollm2_gguf: Path) -> dict[str, Figure]:
    torch.set_num_threads(1)
    outcome = numerics.run(numerics.Sizes(tokens=16), lambda text: None)
    return {one.name: one for one in outcome.figures}


@pytest.mark.smollm2
@pytest.mark.parametrize("reading", ["token by token", "whole"])
def test_the_default_is_within_a_hundredth_of_a_nat(
    figures: dict[str, Figure], reading: str
) -> None:
    one = figures[f"weights as held, KV bf16, {reading}: mean KL to fp32"]

    assert one.bar == 0.01
    assert 0 < one.value <= one.bar


@pytest.mark.smollm2
def test_fp32_is_what_it_is_compared_with(figures: dict[str, Figure]) -> None:
    """Token by token too: a divergence of the measurement's own would be seen here."""
    moved = [one.value for name, one in figures.items() if "weights fp32, KV fp32" in name]

    assert len(moved) == 2
    assert all(abs(value) < 1e-6 for value in moved)
