"""Sequences that wait, and whose turn it is: tenants get equal shares."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator

from ..core import Sequence

__all__ = ["FairQueue", "Turns"]


class FairQueue:
    """Each tenant's waiting sequences in a line of its own: by priority, then by arrival.

    A preempted one goes back to its old place, not to the end (vllm#41951).

    Attributes:
        num_tokens: Prompt tokens that wait to start for the first time.
    """

    def __init__(self) -> None:
        self.lines: dict[str, list[Sequence]] = {}  # none is empty
        self.num_tokens = 0

    def __len__(self) -> int:
        return sum(map(len, self.lines.values()))

    def __iter__(self) -> Iterator[Sequence]:
        for line in self.lines.values():
            yield from line

    def add(self, sequence: Sequence) -> None:
        insort(self.lines.setdefault(sequence.tenant, []), sequence, key=_place)
        self.num_tokens += _num_fresh(sequence)

    def remove(self, sequence: Sequence) -> bool:
        """Take a sequence out; `False` if it does not wait."""
        line = self.lines.get(sequence.tenant, [])
        if sequence not in line:
            return False
        line.remove(sequence)
        if not line:
            del self.lines[sequence.tenant]
        self.num_tokens -= _num_fresh(sequence)
        return True

    def overflow(self, max_queued: int, max_tokens: int | None = None) -> list[Sequence]:
        """Who is too much: the last in line of the tenant that has most tokens waiting.

        Those that ever ran are not counted: their output is under way. One may always wait.
        """
        most = self.num_tokens if max_tokens is None else max_tokens
        if len(self) <= max_queued and self.num_tokens <= most:
            return []
        lines = {tenant: list(filter(_num_fresh, line)) for tenant, line in self.lines.items()}
        tokens = {tenant: sum(map(_num_fresh, line)) for tenant, line in lines.items()}
        count, total, refused = sum(map(len, lines.values())), self.num_tokens, []
        while count > max_queued or (total > most and count > 1):
            tenant = max(tokens, key=lambda name: tokens[name])
            refused.append(lines[tenant].pop())
            num_tokens = _num_fresh(refused[-1])
            tokens[tenant] -= num_tokens
            total -= num_tokens
            count -= 1
        return refused[::-1]

    def check(self) -> None:
        """Raise `AssertionError` unless the books balance."""
        for tenant, line in self.lines.items():
            assert line == sorted(line, key=_place), f"the line of {tenant!r} is out of order"
            assert line, f"{tenant!r} has an empty line"
        assert self.num_tokens == sum(map(_num_fresh, self)), "waiting tokens are miscounted"
        for sequence in self:
            assert not sequence.block_table, f"{sequence.id} waits and holds blocks"
            claims = (sequence.num_computed, sequence.num_published, sequence.row)
            assert claims == (0, 0, -1), f"{sequence.id} waits and claims to be computed"


class Turns:
    """Deficit round robin over tenants, in tokens; a turn has `quantum` at least.

    Work can be cut anywhere, so all that a tenant is ever owed is the rest of a turn that the
    end of a step cut short.

    Source: Shreedhar and Varghese, "Efficient fair queueing using deficit round robin", 1995.
    """

    def __init__(self, quantum: int) -> None:
        self._quantum = quantum
        self._owed: dict[str, int] = {}  # in the order of turns

    def give_out(
        self, tenants: Iterable[str], budget: int, spend: Callable[[str, int], int]
    ) -> None:
        """Let each tenant `spend` up to so many of a step's tokens, and tell how many, in turn."""
        there = dict.fromkeys(tenants, 0)
        owed = {tenant: rest for tenant, rest in self._owed.items() if tenant in there}
        owed = owed | {tenant: 0 for tenant in there if tenant not in owed}
        quantum = max(self._quantum, budget // max(1, len(owed)))
        idle = 0
        while budget > 0 and idle < len(owed):
            tenant = next(iter(owed))
            credit = owed.pop(tenant) or quantum
            spent = spend(tenant, min(credit, budget))
            budget -= spent
            idle = 0 if spent else idle + 1
            if budget <= 0 and spent < credit:
                owed = {tenant: credit - spent} | owed
            else:
                owed[tenant] = 0
        self._owed = owed


def _place(sequence: Sequence) -> tuple[int, int]:
    return (-sequence.priority, sequence.arrival)


def _num_fresh(sequence: Sequence) -> int:
    """Prompt tokens of a sequence that never ran; 0 of one that did."""
    return 0 if sequence.preemptions else len(sequence.prompt_token_ids)
