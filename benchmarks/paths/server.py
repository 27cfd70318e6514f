"""Paths through the part of `server_reference` that is arithmetic: no model, no torch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from server_reference.core import SamplingParams, Sequence
from server_reference.engine.scheduler import Scheduler
from server_reference.kv.block_pool import BlockPool
from server_reference.kv.prefix_cache import PrefixCache
from server_reference.text.detokenizer import Detokenizer

__all__ = ["detokenizer", "prefix_match", "scheduler_step"]

_BLOCK_SIZE = 16
_NUM_SEQUENCES = 64


def scheduler_step() -> Callable[[], object]:
    scheduler = Scheduler(
        BlockPool(4096),
        block_size=_BLOCK_SIZE,
        capacity=2048,
        max_num_seqs=_NUM_SEQUENCES,
        max_step_tokens=4096,
        max_prefill_share=256,
    )
    for number in range(_NUM_SEQUENCES):
        # Prompts of all remainders, so that every step fills as many blocks as the next.
        scheduler.add(_sequence(number, [number] * (32 + number % _BLOCK_SIZE), max_tokens=1024))
    scheduler.commit(scheduler.schedule())

    def step() -> None:
        for sequence in scheduler.running.values():
            sequence.output_token_ids.append(7)
        work = scheduler.schedule()
        assert work.num_tokens == _NUM_SEQUENCES
        scheduler.commit(work)

    return step


def prefix_match() -> Callable[[], object]:
    prompt = [(7 * position) % 49152 for position in range(600)]
    pool = BlockPool(128)
    cache = PrefixCache(pool, block_size=_BLOCK_SIZE)
    first = _sequence(0, prompt)
    first.block_table = pool.allocate(len(prompt) // _BLOCK_SIZE)
    first.num_computed = len(prompt)
    cache.publish(first, first.num_computed)
    numbers = count(1)

    def step() -> None:
        found = cache.match(_sequence(next(numbers), prompt))
        assert found == first.block_table

    return step


def detokenizer() -> Callable[[], object]:
    # A four-byte character in two tokens, a stop string that almost comes, plain words.
    tokens = [b" word", b"s and", b" \xf0\x9f", b"\x99\x82", b" STO", b"Re", b",", b" then"]
    output = [number % len(tokens) for number in range(64)]

    def step() -> None:
        detokenizer = Detokenizer(tokens.__getitem__, stop=("STOP", "\n\nUser:"))
        pieces = [detokenizer.push(token) for token in output]
        assert len("".join(pieces) + detokenizer.flush()) == 192

    return step


def _sequence(number: int, prompt: list[int], *, max_tokens: int = 16) -> Sequence:
    return Sequence(
        id=f"sequence-{number}",
        tenant="tenant-1",
        prompt_token_ids=prompt,
        params=SamplingParams(max_tokens=max_tokens),
        arrival=number,
    )
