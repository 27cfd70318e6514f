"""Noise from a hash."""

from __future__ import annotations

import numpy as np
import pytest

from server_reference.kernels.noise import (
    MAX_NOISE,
    draw_key,
    gumbel_noise,
    least_hash,
    token_hashes,
)


def hashes_of(*draws, num_tokens=1000):
    ids = np.arange(num_tokens, dtype=np.uint32)
    return token_hashes([draw_key(*draw) for draw in draws], np.tile(ids, (len(draws), 1)))


def test_the_same_numbers_hash_to_the_same_bits():
    """Recorded: another version, or another device, has to make these."""
    assert hashes_of((7, 3), num_tokens=3).tolist() == [[1763863936, 3081698435, 3893674770]]


@pytest.mark.parametrize("other", [(1, 0), (0, 1), (2**63, 0)])
def test_another_seed_or_index_draws_other_noise(other):
    one, changed = hashes_of((0, 0), other)

    assert (one == changed).sum() == 0


def test_noise_is_gumbel_distributed():
    noise = gumbel_noise(hashes_of(*((seed, 0) for seed in range(50)), num_tokens=2000))

    assert abs(noise.mean() - 0.5772) < 0.02
    assert abs(noise.var() - 1.6449) < 0.05


def test_the_extreme_hashes_have_finite_noise():
    noise = gumbel_noise(np.array([0, 2**31, 2**32 - 1], np.uint32))

    assert np.isfinite(noise).all()
    assert noise.max() < MAX_NOISE < noise.max() + 0.1


@pytest.mark.parametrize("least", [-2.0, 0.0, 1.0, 8.0, 20.0, 30.0])
def test_no_hash_below_the_least_has_more_noise(least):
    first = int(least_hash(least))
    below = np.arange(max(0, first - 5), first, dtype=np.uint32)

    assert (gumbel_noise(below) <= least).all()


def test_hardly_any_hash_above_the_least_has_less_noise():
    first = int(least_hash(8.0))

    assert gumbel_noise(np.array([first + 5], np.uint32)) > 8.0
