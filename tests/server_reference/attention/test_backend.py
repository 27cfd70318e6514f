"""The KV blocks that backends share."""

from __future__ import annotations

import numpy as np
import torch

from server_reference.attention.backend import PagedCache, token_bytes
from tests.server_reference.attention.paged import BLOCK_SIZE, CONFIG, a_batch, a_cache, random_qkv


def test_what_is_stored_in_a_layer_is_gathered_from_it():
    cache, (_, k, v) = a_cache(), random_qkv(6)
    cache.begin(a_batch(([9, 3], 0, 6)))

    cache.store(1, k, v)

    keys, values = cache.gather(1, np.array([[9, 3]]))
    torch.testing.assert_close(keys[0, :6], k, atol=0, rtol=0)
    torch.testing.assert_close(values[0, :6], v, atol=0, rtol=0)


def test_a_block_is_cleared_in_all_layers_when_its_first_slot_is_written():
    cache = a_cache()

    cache.begin(a_batch(([9, 3], 0, 5)))

    assert cache.k[:, [9, 3]].eq(0).all()
    assert cache.v[:, [9, 3]].eq(0).all()


def test_a_block_that_goes_on_keeps_what_it_has():
    cache = a_cache()

    cache.begin(a_batch(([9, 3], 5, 2)))

    assert cache.k[:, [9, 3]].isnan().all()


def test_the_memory_of_a_token_is_that_of_its_keys_and_values():
    cache = PagedCache(CONFIG, num_blocks=10, block_size=BLOCK_SIZE, dtype=torch.float32)

    size = token_bytes(CONFIG, torch.float32)

    assert 10 * BLOCK_SIZE * size == cache.k.nbytes + cache.v.nbytes
