"""Find the KV blocks of a prompt's beginning that are computed already.

A block's key is a hash of all tokens up to its end and of whose they are, so that equal
keys mean equal keys and values. Only full, computed blocks have one.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Set
from collections.abc import Sequence as Seq
from hashlib import sha256

from ..core import Sequence
from .block_pool import BlockPool

__all__ = ["PrefixCache", "block_key", "root_key"]


def root_key(extras: Seq[tuple[str, str]]) -> bytes:
    """The parent of a first block's key: what besides tokens a prefix depends on.

    Each extra is a pair of its kind and its value, both length-prefixed, so that
    `("tenant", "x")` never equals `("adapter", "x")` (vllm#44701) nor any other split
    of the same characters. It chains into the keys of all blocks that follow.

    sha256, not `hash` or xxhash: a tenant must not be able to build a collision
    (GHSA-rm76-4mrf-v9r8, vllm#54727).
    """
    digest = sha256(b"root")
    for extra in extras:
        for part in extra:
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little"))
            digest.update(encoded)
    return digest.digest()


def block_key(parent: bytes, token_ids: Seq[int]) -> bytes:
    """The key of a full block, given that of the block before it."""
    return sha256(b"block" + parent + array("q", token_ids).tobytes()).digest()


class PrefixCache:
    """The keys of sequences' blocks, over a pool that remembers them.

    Args:
        pool: Holds the key of every cached block.
        block_size: Tokens per block.
        is_on: `False` finds and remembers nothing.
    """

    def __init__(self, pool: BlockPool, *, block_size: int, is_on: bool = True) -> None:
        self._pool = pool
        self._block_size = block_size
        self._is_on = is_on

    def match(self, sequence: Sequence) -> list[int]:
        """The blocks that hold the beginning of `sequence`, in order; none are taken.

        Never all of its tokens: the last one is computed again, because the next token
        is sampled from its logits (vllm#30320, nano-vllm#144).
        """
        blocks: list[int] = []
        for key in self._keys(sequence, self._num_wanted(sequence)):
            block = self._pool.find(key)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, sequence: Sequence, num_computed: int) -> None:
        """Make the blocks findable that the first `num_computed` tokens of `sequence` fill."""
        count = num_computed // self._block_size
        keys, table = self._keys(sequence, count), sequence.block_table
        for number in range(sequence.num_published, len(keys)):
            after = table[number - 1] if number else None
            self._pool.register(table[number], keys[number], after=after)
            sequence.num_published = number + 1

    def forget(self, sequence: Sequence) -> None:
        """Let nobody find what was published of a sequence, nor what was computed from it.

        By its keys: it may have lost its blocks to a preemption, or have left.
        """
        found = map(self._pool.find, sequence.block_keys)
        self._pool.forget([block for block in found if block is not None])

    def unpublished(self, sequence: Sequence) -> tuple[bytes, int, bytes] | None:
        """The block that a running sequence will publish next, if all its tokens are known.

        Returns:
            The key of its first block, and number and key of that one.
        """
        number, table = sequence.num_published, sequence.block_table
        if (number + 1) * self._block_size > sequence.num_known:
            return None
        if number and not self._pool.is_chained(table[number - 1]):
            return None
        keys = self._keys(sequence, number + 1)
        return (keys[0], number, keys[number]) if keys else None

    def awaits(self, sequence: Sequence, coming: Mapping[bytes, Set[tuple[int, bytes]]]) -> bool:
        """Whether a block that `sequence` lacks is among those that others are computing.

        Args:
            coming: Number and key of such blocks, by the key of their first one.
        """
        keys = self._keys(sequence, self._num_wanted(sequence))
        return any(
            number < len(keys) and keys[number] == key and self._pool.find(key) is None
            for number, key in coming.get(keys[0] if keys else b"", ())
        )

    def _num_wanted(self, sequence: Sequence) -> int:
        """Full blocks of a waiting sequence, without its last token.

        None where the prompt's logprobs, which are no part of the cache, are not told yet.
        """
        if sequence.params.prompt_logprobs is not None and not sequence.num_outputs:
            return 0
        return (sequence.target - 1) // self._block_size

    def _keys(self, sequence: Sequence, count: int) -> list[bytes]:
        """The keys of the first `count` blocks; each is hashed once."""
        if not self._is_on:
            return []
        keys, size = sequence.block_keys, self._block_size
        while len(keys) < count:
            parent = keys[-1] if keys else _root_of(sequence)
            start = len(keys) * size
            keys.append(block_key(parent, sequence.tokens(start, start + size)))
        return keys[:count] if len(keys) > count else keys


def _root_of(sequence: Sequence) -> bytes:
    return root_key([("tenant", sequence.tenant), ("salt", sequence.cache_salt)])
