"""What a prefix finds, and whose."""

from __future__ import annotations

import pytest

from server_reference.core import SamplingParams, Sequence
from server_reference.kv.block_pool import BlockPool
from server_reference.kv.prefix_cache import PrefixCache, block_key, root_key

BLOCK_SIZE = 4


def a_sequence(tokens, *, tenant="a", output=()):
    params = SamplingParams(max_tokens=8)
    sequence = Sequence(
        id="s", tenant=tenant, prompt_token_ids=list(tokens), params=params, arrival=0
    )
    sequence.output_token_ids = list(output)
    return sequence


def a_cache(num_blocks=8):
    pool = BlockPool(num_blocks)
    return pool, PrefixCache(pool, block_size=BLOCK_SIZE)


def compute(pool, cache, sequence):
    """Pretend that all of `sequence` was computed and has finished."""
    sequence.block_table = pool.allocate(-(-sequence.target // BLOCK_SIZE))
    sequence.num_computed = sequence.target
    cache.publish(sequence, sequence.num_computed)
    pool.release(sequence.block_table)
    return sequence.block_table


def test_a_prompt_finds_the_full_blocks_it_begins_with():
    pool, cache = a_cache()
    blocks = compute(pool, cache, a_sequence(range(10)))

    found = cache.match(a_sequence([*range(8), 99, 98, 97, 96, 95]))

    assert found == blocks[:2]


@pytest.mark.parametrize("num_tokens", [8, 12])
def test_the_last_token_of_a_fully_cached_prompt_is_computed_again(num_tokens):
    """Its logits choose the next token (vllm#30320, nano-vllm#144)."""
    pool, cache = a_cache()
    blocks = compute(pool, cache, a_sequence(range(num_tokens)))

    found = cache.match(a_sequence(range(num_tokens)))

    assert found == blocks[:-1]


def test_a_prefix_that_differs_in_its_first_block_finds_nothing_after_it():
    pool, cache = a_cache()
    compute(pool, cache, a_sequence(range(12)))

    assert cache.match(a_sequence([77, *range(1, 12), 5])) == []


def test_another_tenant_finds_nothing():
    pool, cache = a_cache()
    compute(pool, cache, a_sequence(range(12), tenant="a"))

    assert cache.match(a_sequence(range(12), tenant="b")) == []


def test_another_salt_finds_nothing():
    """Who may not see that a prompt was asked before brings a salt (vllm#17045)."""
    pool, cache = a_cache()
    compute(pool, cache, a_sequence(range(12)))
    salted = a_sequence(range(12))
    salted.cache_salt = "x"

    assert cache.match(salted) == []


def test_a_cache_that_is_off_finds_nothing():
    pool = BlockPool(8)
    cache = PrefixCache(pool, block_size=BLOCK_SIZE, is_on=False)
    compute(pool, cache, a_sequence(range(12)))

    assert cache.match(a_sequence(range(12))) == []
    assert pool.num_cached == 0


def test_blocks_that_are_not_computed_are_not_published():
    pool, cache = a_cache()
    sequence = a_sequence(range(12))
    sequence.block_table = pool.allocate(3)
    sequence.num_computed = 7

    cache.publish(sequence, sequence.num_computed)

    assert cache.match(a_sequence(range(12))) == sequence.block_table[:1]


def test_output_tokens_are_found_by_the_next_turn():
    pool, cache = a_cache()
    blocks = compute(pool, cache, a_sequence(range(6), output=[50, 51, 52]))

    found = cache.match(a_sequence([*range(6), 50, 51, 60]))

    assert found == blocks[:2]


def test_an_evicted_head_hides_the_blocks_after_it():
    pool, cache = a_cache(num_blocks=3)
    blocks = compute(pool, cache, a_sequence(range(12)))
    pool.forget(blocks[:1])

    assert cache.match(a_sequence(range(12))) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([("tenant", "x")], [("adapter", "x")], id="same-value-of-another-kind"),
        pytest.param([("tenant", "xy")], [("tenantx", "y")], id="moved-boundary"),
        pytest.param([("a", "b"), ("c", "d")], [("a", "bcd")], id="joined"),
        pytest.param([("tenant", "")], [], id="empty-and-absent"),
        pytest.param([("tenant", "\ud800")], [("tenant", "?")], id="lone-surrogate"),
    ],
)
def test_extra_keys_of_different_kinds_never_collide(one, other):
    """An adapter named like a tenant must not read its cache (vllm#44701)."""
    assert root_key(one) != root_key(other)


def test_a_key_depends_on_all_tokens_before():
    first, second = block_key(root_key([]), [1, 2]), block_key(root_key([]), [1, 3])

    assert block_key(first, [4, 5]) != block_key(second, [4, 5])
