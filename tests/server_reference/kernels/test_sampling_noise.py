"""Noise on a device: the same bits as on a host."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.server_reference.kernels.interpreted import guarded

import triton  # isort: skip
import triton.language as tl  # isort: skip

from server_reference.kernels import noise, sampling_noise  # isort: skip

COUNT = 4096


@triton.jit
def _hash_kernel(out_ptr, token_ids_ptr, key_low, key_high, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    hashes = sampling_noise.hashes_of(
        tl.load(token_ids_ptr + offs), key_low.to(tl.uint32), key_high.to(tl.uint32)
    )
    tl.store(out_ptr + offs, hashes.to(tl.int64))


@triton.jit
def _noise_kernel(exact_ptr, rough_ptr, hashes_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    hashes = tl.load(hashes_ptr + offs).to(tl.uint32)
    tl.store(exact_ptr + offs, sampling_noise.gumbel(hashes))
    tl.store(rough_ptr + offs, sampling_noise.rough_gumbel(hashes))


@triton.jit
def _noisiest_kernel(out_ptr, scores_ptr, leader, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    scores = tl.load(scores_ptr + offs)
    key = tl.full([], 7, tl.uint32)
    noisy, _, token = sampling_noise.noisiest(
        scores, offs, scores > -5.0, key, key, leader, 0.0, -1
    )
    tl.store(out_ptr, noisy)
    tl.store(out_ptr + 1, token)


def edges():
    """Hashes where the formula changes, at both ends, and of every size."""
    middles = [0, 2**31, 2**32 - 2**26, 2**32 - 1, *(2**bit for bit in range(32))]
    near = np.array(middles, np.int64)[:, None] + np.arange(-50, 50)
    return np.resize(near.clip(0, 2**32 - 1).reshape(-1), COUNT)


@pytest.mark.parametrize("key", [(0, 0), (2**32 - 1, 1), (0x12345678, 0x9ABCDEF0)])
def test_hashes_are_those_of_the_host(key):
    token_ids = torch.randint(2**31 - 1, (COUNT,), dtype=torch.int32)
    hashes = guarded(torch.zeros(COUNT, dtype=torch.int64))

    _hash_kernel[(1,)](hashes, token_ids, *key, BLOCK=COUNT)

    (expected,) = noise.token_hashes(
        [key[0] | key[1] << 32], token_ids.numpy().astype(np.uint32)[None]
    )
    assert (hashes.numpy() == expected).all()


def test_noise_is_that_of_the_host_and_the_rough_one_within_its_margin():
    hashes = edges()
    exact, rough = (guarded(torch.zeros(COUNT)) for _ in range(2))

    _noise_kernel[(1,)](exact, rough, torch.from_numpy(hashes), BLOCK=COUNT)

    assert (exact.numpy() == noise.gumbel_noise(hashes.astype(np.uint32))).all()
    assert (exact - rough).abs().max() < sampling_noise.MARGIN.value / 8


@pytest.mark.parametrize("leader", [-torch.inf, 2.0, 30.0])
def test_the_noisiest_of_those_that_can_win(leader):
    """Half of them cannot, and whoever leads stays if none is noisier."""
    scores = torch.randn(COUNT) * 5 - 5
    (hashes,) = noise.token_hashes([7 | 7 << 32], np.arange(COUNT, dtype=np.uint32)[None])
    noisy = np.where(scores > -5, scores.numpy() + noise.gumbel_noise(hashes), -np.inf)
    out = torch.zeros(2)

    _noisiest_kernel[(1,)](out, guarded(scores), leader, BLOCK=COUNT)

    stays = noisy.max() < leader
    assert out.tolist() == ([leader, -1.0] if stays else [noisy.max(), float(noisy.argmax())])
