"""Decide which waiting sequences may start in a step, and who makes way for them.

Decided anew in every step from what runs, what is free and how long outputs were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import NamedTuple

from ..core import Sequence
from .books import Books
from .step import Plan

__all__ = ["PASSED_BY_OWN", "Admission", "Future", "Verdict", "peak_growth"]

PASSED_BY_OWN = 8  # starts of others until one that waits for blocks holds its own line back
_PASSED_BY_ALL = 64  # and until it holds all back
_MIN_RUN = 16  # output tokens between two times that a sequence makes way for another tenant


class Future(NamedTuple):
    """A sequence's output tokens to come, blocks it lacks now, and blocks its end sets free."""

    tenant: str
    remaining: int
    needs: int
    holds: int


class Verdict(NamedTuple):
    """The cached blocks to start with; or why it waits, and who could make way for it."""

    found: list[int] | None = None
    why: str = ""
    victims: Seq[Sequence] = ()


def peak_growth(futures: Iterable[Future], block_size: int) -> int:
    """Blocks that sequences will hold beyond those they do now, at the worst moment.

    That is just before one of them ends: all that last longer have grown as much as it has,
    and the shorter ones have given theirs back.

    Source: Gong et al., "Past-Future Scheduler for LLM Serving", ASPLOS 2025.
    """
    futures = sorted(futures, key=lambda future: -future.remaining)
    given_back = sum(future.holds for future in futures)
    peak = needed = 0
    for alive, (_, remaining, needs, holds) in enumerate(futures, start=1):
        needed += needs
        given_back -= holds
        grown = alive * -(-remaining // block_size)
        peak = max(peak, needed + grown - given_back)
    return peak


class Admission:
    """Who may start. Of slots and blocks, each tenant's share is an equal part.

    Below it, a tenant starts sequences at the cost of those above; above it, only with what
    no tenant below its share has a use for.

    Args:
        books: Of the scheduler; they may change between two judgements.
        max_running: Sequences that run at once.
        watermark: Blocks that stay free when a sequence starts beside others.

    Attributes:
        blocked: Those that this step lacked a slot or blocks for.
    """

    def __init__(self, books: Books, *, max_running: int, watermark: int) -> None:
        self._books, self._pool = books, books.pool
        self._max_running, self._watermark = max_running, watermark
        self.blocked: list[Sequence] = []

    def begin(self, plan: Plan) -> None:
        """Start with a step."""
        books, self._plan = self._books, plan
        lines = self._lines = books.waiting.lines
        self._num_tenants = max(1, len(books.slots.keys() | lines.keys()))
        self._slot_share = max(1, self._max_running // self._num_tenants)
        self._block_share = self._pool.num_blocks // self._num_tenants
        self._futures: list[Future] = []
        self.blocked = []
        heads = [line[0] for tenant, line in lines.items() if tenant not in books.slots]
        starved = [head for head in heads if head.passed_over >= _PASSED_BY_ALL]
        self._starved = min(starved, key=_arrival, default=None)

    def is_closed_to(self, tenant: str) -> str:
        """Why none of a tenant's can start, whatever it is; empty if one may."""
        if self._has_slot(tenant) or self._is_below_share(tenant):
            return ""
        return f"{len(self._books.running)} run, of {self._max_running}: its tenant has its share"

    def judge(self, sequence: Sequence) -> Verdict:
        """Decide about a waiting sequence."""
        if self._starved not in (None, sequence):
            return Verdict(why="one that waited long for blocks goes first")
        if sequence in self._plan.preempted:
            return Verdict(why="it has just lost its blocks")
        self._look()
        if self._books.cache.awaits(sequence, self._coming):
            return Verdict(why="another computes a block that it can share")
        found = self._books.cache.match(sequence)
        needs = self._blocks_for(sequence.target) - len(found)
        taken = needs + self._pool.num_free_among(found)
        has_slot = self._has_slot(sequence.tenant)
        if has_slot and self._fits(sequence, needs, taken):
            return Verdict(found)
        self.blocked.append(sequence)
        why = f"{self._pool.num_free} blocks are free: it needs {taken}, and all that run grow"
        own = self._future(sequence, needs, taken)
        return Verdict(None, why, self._victims(own, lacks_slot=not has_slot))

    def started(self, sequence: Sequence) -> None:
        """Note that a sequence runs now, with the blocks of its first tokens."""
        for other in self.blocked:
            other.passed_over += other is not sequence
        self._note(sequence)

    def _look(self) -> None:
        if len(self._futures) != len(self._books.running) or not self._futures:
            self._futures, self._held, self._promised = [], Counter[str](), 0
            self._coming: dict[bytes, set[tuple[int, bytes]]] = {}
            for sequence in self._books.running.values():
                self._note(sequence)

    def _note(self, sequence: Sequence) -> None:
        held, tenant = len(sequence.block_table), sequence.tenant
        needs = self._needs(sequence)
        remaining = self._books.lengths.remaining(sequence)
        self._futures.append(Future(tenant, remaining, needs, held - sequence.num_shared))
        self._held[tenant] += held
        self._promised += needs
        coming = self._books.cache.unpublished(sequence)
        if coming is not None:
            self._coming.setdefault(coming[0], set()).add(coming[1:])

    def _has_slot(self, tenant: str) -> bool:
        """Whether a slot is free that no tenant below its share has a claim to."""
        free, share, slots = (
            self._max_running - len(self._books.running),
            self._slot_share,
            self._books.slots,
        )
        if free < 1 or slots[tenant] < share:
            return free > 0
        lines = self._lines.items()
        return free > sum(
            min(len(line), share - slots[other]) for other, line in lines if slots[other] < share
        )

    def _is_below_share(self, tenant: str) -> bool:
        return self._num_tenants > 1 and self._books.slots[tenant] < self._slot_share

    def _fits(self, sequence: Sequence, needs: int, taken: int) -> bool:
        """Whether there are blocks for its tokens now, and for outputs as long as expected.

        That is: for those of all in the pool, or of its tenant in the tenant's share.
        """
        if not self._books.running:
            return taken <= self._pool.num_free
        room = self._pool.num_free - self._watermark - self._promised
        if self._held[sequence.tenant] + taken > self._block_share:
            room -= self._claims(sequence.tenant)
        own, futures = self._future(sequence, needs, taken), self._futures
        return taken <= room and (
            peak_growth([own, *futures], self._books.block_size) <= self._pool.num_free
            or self._fits_share(own)
        )

    def _fits_share(self, own: Future) -> bool:
        """Whether a tenant's sequences, with one more, stay within its share all along."""
        mine = [future for future in self._futures if future.tenant == own.tenant]
        left = self._block_share - self._held[own.tenant]
        return self._num_tenants > 1 and peak_growth([own, *mine], self._books.block_size) <= left

    def _future(self, sequence: Sequence, needs: int, taken: int) -> Future:
        return Future(sequence.tenant, self._books.lengths.remaining(sequence), taken, needs)

    def _claims(self, tenant: str) -> int:
        """Blocks that the first in line of other tenants need, if within their share."""
        heads = [line[0] for other, line in self._lines.items() if other != tenant]
        needs = [(head.tenant, self._blocks_for(head.target)) for head in heads]
        return sum(need for other, need in needs if self._held[other] + need <= self._block_share)

    def _victims(self, own: Future, *, lacks_slot: bool) -> list[Sequence]:
        """Who makes way for a sequence of a tenant below its share; none where that is in vain.

        The latest of the lowest priority, of the tenant most above its share; never who arrived
        first of all, nor who had few tokens since it last made way: so its preemptions end.
        """
        tenant, slots, held = own.tenant, self._books.slots.copy(), self._held.copy()
        lack = own.needs + self._watermark + self._promised - self._pool.num_free
        if not self._is_below_share(tenant) or not self._fits_share(own):
            return []
        if lack > 0 and any(step.freed_after for step in self._books.in_flight):
            return []  # enough have made way, as soon as that step has run
        candidates = sorted(self._books.running.values(), key=_arrival)[1:]
        candidates = [one for one in candidates if _has_run(one)]
        victims: list[Sequence] = []
        while lacks_slot or lack > 0:
            above = slots if lacks_slot else held
            share = self._slot_share if lacks_slot else self._block_share
            over = [one for one in candidates if above[one.tenant] > share]
            if not over:
                return []
            victim = max(over, key=lambda one: (above[one.tenant], -one.priority, one.arrival))
            victims.append(victim)
            candidates.remove(victim)
            slots[victim.tenant] -= 1
            held[victim.tenant] -= len(victim.block_table)
            lack -= self._pool.num_unshared(victim.block_table) + self._needs(victim)
            lacks_slot = False
        return victims

    def _needs(self, sequence: Sequence) -> int:
        """Blocks that a running sequence lacks for the tokens it has."""
        return max(0, self._blocks_for(sequence.num_known) - len(sequence.block_table))

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self._books.block_size)


def _arrival(sequence: Sequence) -> int:
    return sequence.arrival


def _has_run(sequence: Sequence) -> bool:
    since = sequence.num_outputs - sequence.started_with
    return sequence.preemptions == 0 or since >= _MIN_RUN
