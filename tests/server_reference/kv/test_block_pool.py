"""The books of the block pool."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from server_reference.kv.block_pool import BlockPool


def test_a_new_pool_hands_out_blocks_in_order():
    pool = BlockPool(4)

    assert pool.allocate(3) == [0, 1, 2]
    assert pool.num_free == 1


def test_the_block_that_was_free_longest_is_used_first():
    pool = BlockPool(3)
    first, second, third = pool.allocate(1), pool.allocate(1), pool.allocate(1)

    for table in (second, third, first):
        pool.release(table)

    assert pool.allocate(3) == second + third + first


def test_a_table_is_freed_tail_first():
    """Its head, which more prefixes share, is then evicted last."""
    pool = BlockPool(3)

    pool.release(pool.allocate(3))

    assert pool.allocate(3) == [2, 1, 0]


def test_a_free_block_is_found_until_it_is_used_again():
    pool = BlockPool(1)
    pool.register(pool.allocate(1)[0], b"key")
    pool.release([0])

    found = pool.find(b"key")
    pool.allocate(1)

    assert found == 0
    assert pool.find(b"key") is None


def test_sharing_takes_a_block_out_of_the_middle_of_the_free_list():
    pool = BlockPool(3)
    pool.share([1])

    assert pool.allocate(2) == [0, 2]
    pool.check([[0], [1], [2]])


def test_a_shared_block_is_free_only_after_its_last_release():
    pool = BlockPool(2)
    table = pool.allocate(1)
    pool.share(table)

    pool.release(table)
    still_used = pool.num_free
    pool.release(table)

    assert (still_used, pool.num_free) == (1, 2)


def test_the_first_block_of_a_key_keeps_it():
    """A second copy stays its owner's alone: tables are never rewritten (mini-sglang#142)."""
    pool = BlockPool(2)
    first, second = pool.allocate(2)
    pool.register(first, b"key")

    pool.register(second, b"key")

    assert pool.find(b"key") == first
    pool.check([[first, second]])


def test_a_forgotten_block_stays_with_its_owner_and_is_not_found():
    pool = BlockPool(1)
    table = pool.allocate(1)
    pool.register(0, b"key")

    pool.forget(table)

    assert pool.find(b"key") is None
    pool.check([table])


def a_chain(pool, *keys):
    """Blocks, each computed from the one before it."""
    table = pool.allocate(len(keys))
    for number, key in enumerate(keys):
        pool.register(table[number], key, after=table[number - 1] if number else None)
    return table


def test_what_was_computed_from_a_forgotten_block_is_forgotten_too():
    pool = BlockPool(5)
    first, second, _ = a_chain(pool, b"a", b"ab", b"abc")
    other = pool.allocate(2)
    pool.register(other[0], b"abx", after=second)
    pool.register(other[1], b"z")

    pool.forget([second])

    assert [pool.find(key) is None for key in (b"a", b"ab", b"abc", b"abx", b"z")] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert pool.is_chained(first)


def test_nothing_more_is_registered_after_a_forgotten_block():
    """A sequence that reads it goes on, but what it computes is not shared."""
    pool = BlockPool(3)
    table = a_chain(pool, b"a", b"ab")
    more = pool.allocate(1)

    pool.forget(table)
    pool.register(more[0], b"abc", after=table[1])

    assert pool.num_cached == 0


def test_a_second_copy_leads_to_what_is_computed_from_it():
    pool = BlockPool(4)
    a_chain(pool, b"a")
    copy = a_chain(pool, b"a", b"ab")

    pool.forget(copy[:1])

    assert pool.find(b"ab") is None
    assert pool.find(b"a") is not None


def test_a_block_that_is_used_again_takes_what_was_computed_from_it_out_of_the_cache():
    pool = BlockPool(2)
    first, _ = a_chain(pool, b"a", b"ab")
    pool.release([first])

    pool.allocate(1)

    assert pool.find(b"ab") is None
    pool.check([[0], [1]])


def test_a_reset_pool_is_as_new():
    pool = BlockPool(3)
    a_chain(pool, b"a", b"ab")

    pool.reset()

    assert (pool.num_free, pool.num_cached) == (3, 0)
    pool.check([])


def test_more_blocks_than_are_free_are_refused_and_none_is_taken():
    pool = BlockPool(2)
    table = pool.allocate(1)

    with pytest.raises(ValueError, match="2 blocks asked for, 1 free"):
        pool.allocate(2)

    pool.check([table])


def test_a_pool_needs_a_block():
    with pytest.raises(ValueError, match="at least 1 block, not 0"):
        BlockPool(0)


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param([[0]], id="a-table-is-missing"),
        pytest.param([[0, 1], [0]], id="a-block-in-two-tables-has-one-reference"),
        pytest.param([[0, 1, 2]], id="a-table-holds-a-free-block"),
    ],
)
def test_the_checker_sees_books_that_do_not_balance(tables):
    pool = BlockPool(4)
    pool.allocate(2)

    with pytest.raises(AssertionError, match="block"):
        pool.check(tables)


class PoolMachine(RuleBasedStateMachine):
    """Any order of operations: no block is lost or held twice."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(6)
        self.tables: list[list[int]] = []

    @rule(count=st.integers(0, 6))
    def allocate(self, count: int) -> None:
        if count <= self.pool.num_free:
            self.tables.append(self.pool.allocate(count))

    @rule(key=st.sampled_from([b"a", b"b", b"c"]))
    def share_by_key(self, key: bytes) -> None:
        block = self.pool.find(key)
        if block is not None:
            self.pool.share([block])
            self.tables.append([block])

    @precondition(lambda self: any(self.tables))
    @rule(data=st.data(), key=st.sampled_from([b"a", b"b", b"c"]), forget=st.booleans())
    def register_or_forget(self, data: st.DataObject, key: bytes, forget: bool) -> None:
        block = data.draw(st.sampled_from([b for table in self.tables for b in table]))
        if forget:
            self.pool.forget([block])
        else:
            table = next(table for table in self.tables if block in table)
            place = table.index(block)
            after = table[place - 1] if place else None
            self.pool.register(block, key, after=after)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.tables) - 1))
        self.pool.release(self.tables.pop(place))

    @invariant()
    def books_balance(self) -> None:
        self.pool.check(self.tables)


TestPoolMachine = PoolMachine.TestCase
