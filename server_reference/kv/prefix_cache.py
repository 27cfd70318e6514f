"""Find the KV blocks of a prompt's beginning that are computed already.

A block's key is a hash of all tokens up to its end and of whose they are, so that equal
keys mean equal keys and values. Only full, computed blocks have one.
"""

from __future__ import annotations

from array import array
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
    """

    def __init__(self, pool: BlockPool, *, block_size: int) -> None:
        self._pool = pool
        self._block_size = block_size

    def match(self, sequence: Sequence) -> list[int]:
        """The blocks that hold the beginning of `sequence`, in order; none are taken.

        Never all of its tokens: the last one is computed again, because the next token
        is sampled from its logits (vllm#30320, nano-vllm#144). None at all where the prompt's
        logprobs are asked for, which are no part of the cache, and are not told yet.
        """
        blocks: list[int] = []
        if sequence.params.prompt_logprobs is not None and not sequence.num_outputs:
            return blocks
        for number in range((sequence.target - 1) // self._block_size):
            block = self._pool.find(self._key(sequence, number))
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, sequence: Sequence, num_computed: int) -> None:
        """Make the blocks findable that the first `num_computed` tokens of `sequence` fill."""
        for number in range(sequence.num_published, num_computed // self._block_size):
            self._pool.register(sequence.block_table[number], self._key(sequence, number))
            sequence.num_published = number + 1

    def _key(self, sequence: Sequence, number: int) -> bytes:
        keys = sequence.block_keys
        while len(keys) <= number:
            parent = keys[-1] if keys else root_key([("tenant", sequence.tenant)])
            start = len(keys) * self._block_size
            keys.append(block_key(parent, sequence.tokens(start, start + self._block_size)))
        return keys[number]
