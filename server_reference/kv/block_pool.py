"""Who owns which KV block, and in what order free blocks are used again.

The free list is the cache's LRU order: a freed block goes to its tail and keeps its
key until it is popped from its head, so whatever is free is also still findable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

__all__ = ["BlockPool"]


class _Block:
    """One KV block's books; `before` and `after` are set only while it is free.

    It is chained when it is full and computed: `parent` is the block before it that it was
    computed from, `children` are those that were computed from it.
    """

    __slots__ = ("after", "before", "children", "index", "is_chained", "key", "parent", "ref_count")

    def __init__(self, index: int) -> None:
        self.index = index
        self.ref_count = 0
        self.key: bytes | None = None
        self.is_chained = False
        self.parent: _Block | None = None
        self.children: set[_Block] = set()
        self.before: _Block = self
        self.after: _Block = self


class BlockPool:
    """All KV blocks of an engine, made once.

    A block is free (no references, in the free list) or used. Independently of that
    it may have a key under which `find` returns it. Every operation is O(1) per block.

    Args:
        num_blocks: Blocks in the pool, at least 1.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 1:
            raise ValueError(f"a pool needs at least 1 block, not {num_blocks}")
        self.num_blocks = num_blocks
        self.reset()

    def reset(self) -> None:
        """Make all blocks free, and none findable; whoever held one must let go of it."""
        self.num_free = self.num_blocks
        self._blocks = [_Block(index) for index in range(self.num_blocks)]
        self._by_key: dict[bytes, _Block] = {}
        self._ends = _Block(-1)  # after it comes the head, before it the tail
        for block in self._blocks:
            self._append(block)

    @property
    def num_cached(self) -> int:
        """Blocks that a prefix can find, used or free."""
        return len(self._by_key)

    def allocate(self, count: int) -> list[int]:
        """Take the `count` blocks that were free longest; what they cached is lost."""
        if count > self.num_free:
            raise ValueError(f"{count} blocks asked for, {self.num_free} free; check num_free")
        taken = []
        for _ in range(count):
            block = self._ends.after
            self._unlink(block)
            self._drop(block)
            block.ref_count = 1
            taken.append(block.index)
        self.num_free -= count
        return taken

    def share(self, indices: Iterable[int]) -> None:
        """Add one reference to each block; free ones leave the free list, wherever in it."""
        for index in indices:
            block = self._blocks[index]
            if block.ref_count == 0:
                self._unlink(block)
                self.num_free -= 1
            block.ref_count += 1

    def release(self, table: Sequence[int]) -> None:
        """Give back one reference to each block of a block table, its tail first.

        The tail is then evicted first: a prefix without its tail is useful, a tail
        without its prefix is not.
        """
        for index in reversed(table):
            block = self._blocks[index]
            assert block.ref_count > 0, f"block {index} released more often than taken"
            block.ref_count -= 1
            if block.ref_count == 0:
                self._append(block)
                self.num_free += 1

    def num_free_among(self, indices: Iterable[int]) -> int:
        """How many of these blocks `share` would take from the free list."""
        return sum(self._blocks[index].ref_count == 0 for index in indices)

    def num_unshared(self, indices: Iterable[int]) -> int:
        """How many of these blocks `release` would put into the free list."""
        return sum(self._blocks[index].ref_count == 1 for index in indices)

    def register(self, index: int, key: bytes, *, after: int | None = None) -> None:
        """Let `find(key)` return this block; the first block of a key keeps it.

        Nothing happens where `after`, the block that it was computed from, was forgotten.
        """
        block = self._blocks[index]
        if block.is_chained or (after is not None and not self._blocks[after].is_chained):
            return
        if after is not None:
            block.parent = self._blocks[after]
            block.parent.children.add(block)
        block.is_chained = True
        if key not in self._by_key:
            block.key = key
            self._by_key[key] = block

    def is_chained(self, index: int) -> bool:
        """Whether blocks that are computed from this one can be registered."""
        return self._blocks[index].is_chained

    def find(self, key: bytes) -> int | None:
        """The block registered under `key`, used or free."""
        block = self._by_key.get(key)
        return None if block is None else block.index

    def forget(self, indices: Iterable[int]) -> None:
        """Take blocks, and all that were computed from them, out of the cache for good.

        Who uses them keeps them.
        """
        for index in indices:
            self._drop(self._blocks[index])

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Raise `AssertionError` unless the books balance, given all live block tables."""
        held = Counter(index for table in tables for index in table)
        for block in self._blocks:
            found = block.ref_count
            assert found == held[block.index], (
                f"block {block.index} has {found} references, {held[block.index]} tables hold it"
            )
            assert block.key is None or self._by_key.get(block.key) is block, (
                f"block {block.index} has a key that leads elsewhere"
            )
            assert block.is_chained or not (block.key or block.children or block.parent)
            assert all(child.parent is block for child in block.children)
            assert block.parent is None or block in block.parent.children
        for key, block in self._by_key.items():
            assert block.key == key, f"a key leads to block {block.index}, which has another"
        free = self._free_list()
        assert all(self._blocks[index].ref_count == 0 for index in free)
        assert len(set(free)) == len(free) == self.num_free, (
            f"{len(free)} blocks in the free list, {self.num_free} counted"
        )
        assert len(free) + len(held) == self.num_blocks, (
            f"{len(free)} free and {len(held)} used are not {self.num_blocks} blocks"
        )

    def _free_list(self) -> list[int]:
        order = []
        block = self._ends.after
        while block is not self._ends:
            assert block.after.before is block, f"block {block.index} is badly linked"
            order.append(block.index)
            block = block.after
        return order

    def _append(self, block: _Block) -> None:
        last = self._ends.before
        last.after, block.before = block, last
        block.after, self._ends.before = self._ends, block

    def _unlink(self, block: _Block) -> None:
        block.before.after = block.after
        block.after.before = block.before
        block.before = block.after = block

    def _drop(self, block: _Block) -> None:
        """Take a block out of the cache with what was computed from it."""
        if block.parent is not None:
            block.parent.children.discard(block)
        dropped = [block] if block.is_chained else []
        for one in dropped:  # grows meanwhile
            dropped += one.children
            one.children.clear()
            if one.key is not None:
                del self._by_key[one.key]
            one.key = one.parent = None
            one.is_chained = False
