"""Guess what follows from what a sequence holds already: n-gram lookup.

A guess is checked by the model in the step that would have computed one token. It costs
rows, so a sequence whose guesses fail pauses, and many sequences make none.

Source: Saxena, "Prompt Lookup Decoding", 2023; the search is LZ77's, by chains of equal pairs
(RFC 1951, section 4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Sequence as Seq
from typing import Protocol

from ..core import Sequence

__all__ = ["HostTexts", "NgramIndex", "Speculator", "Texts", "num_accepted"]

_LONGEST, _SHORTEST = 4, 2  # tokens of the n-gram that is looked for
_MOST_TRIED = 16  # places of one pair that are compared
_MOST_ROWS = 16  # of one step; more are no longer nearly free beside the weights' reading
_FIRST = 2  # drafts of a sequence that has not been guessed right yet
_LONGEST_PAUSE = 64


class NgramIndex:
    """Where each pair of neighbouring tokens stood last, and before that.

    Cost:
        `extend` is O(new tokens) and `follow` O(1), however long the text is (vllm#16883).
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._last: dict[int, int] = {}  # by pair: the place after it
        self._earlier: list[int] = []  # by place: the one before it after the same pair

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, token_ids: Iterable[int]) -> None:
        tokens, last, earlier = self._tokens, self._last, self._earlier
        for token in token_ids:
            # The pair that ends the text is entered when a token follows it.
            place = len(tokens)
            earlier.append(-1)
            if place > 1:
                pair = tokens[-2] << 32 | tokens[-1]
                earlier[place] = last.get(pair, -1)
                last[pair] = place
            tokens.append(token)

    def follow(self, count: int) -> list[int]:
        """`count` tokens that followed the longest n-gram like the last tokens, the newest of
        equally long ones; a text that has begun to repeat itself goes on to. Or none.
        """
        tokens = self._tokens
        if len(tokens) <= _SHORTEST:
            return []
        best, length = -1, _SHORTEST - 1
        place = self._last.get(tokens[-2] << 32 | tokens[-1], -1)
        for _ in range(_MOST_TRIED):
            if place < 0 or length == _LONGEST:
                break
            found = self._common(place)
            if found > length:
                best, length = place, found
            place = self._earlier[place]
        if best < 0:
            return []
        followed = tokens[best : best + count]
        return (followed * -(-count // len(followed)))[:count]

    def _common(self, place: int) -> int:
        """Equal tokens before `place` and at the end, `_LONGEST` at most."""
        tokens, length = self._tokens, _SHORTEST
        while length < min(_LONGEST, place) and tokens[place - length - 1] == tokens[-length - 1]:
            length += 1
        return length


class Texts(Protocol):
    """What sequences hold, to be looked up."""

    def follow(self, wanted: Seq[tuple[Sequence, int]]) -> list[list[int]]:
        """What `NgramIndex.follow` gives for each sequence, so many tokens at most."""

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence, if it is known."""


class HostTexts:
    """An index for each sequence."""

    def __init__(self) -> None:
        self._indices: dict[Sequence, NgramIndex] = {}

    def follow(self, wanted: Seq[tuple[Sequence, int]]) -> list[list[int]]:
        """See `Texts`."""
        found = []
        for sequence, count in wanted:
            index = self._indices.setdefault(sequence, NgramIndex())
            index.extend(sequence.tokens(len(index), sequence.num_known))
            found.append(index.follow(count))
        return found

    def remove(self, sequence: Sequence) -> None:
        """See `Texts`."""
        self._indices.pop(sequence, None)


class _Guesses:
    """How one sequence's guesses fared."""

    def __init__(self) -> None:
        self.length = _FIRST
        self.pause = 0
        self.next_pause = 1

    def judge(self, num_drafts: int, num_right: int) -> None:
        if num_right == num_drafts:
            self.length, self.next_pause = 2 * num_drafts, 1
        elif num_right:
            self.length = num_right + 1
        else:
            self.length, self.pause = _FIRST, self.next_pause
            self.next_pause = min(2 * self.next_pause, _LONGEST_PAUSE)


class Speculator:
    """Proposes drafts for sequences, fewer the more run, and learns from what became of them.

    Args:
        num_draft_tokens: For one sequence and step at most.
        texts: Where they are looked up.

    Attributes:
        proposed: Drafts that were checked.
        accepted: Those of them that were right.
    """

    def __init__(self, num_draft_tokens: int, texts: Texts) -> None:
        self._most, self._texts = num_draft_tokens, texts
        self._guesses: dict[Sequence, _Guesses] = {}
        self._proposed: list[Sequence] = []
        self.proposed = 0
        self.accepted = 0

    def is_due(self, running: Collection[Sequence]) -> bool:
        """Whether to guess in the next step; whoever pauses has one step less to."""
        for sequence in self._proposed:
            sequence.drafts = []  # of the last step, which may have had no budget for them
        self._proposed = []
        if not self._share(len(running)):
            return False
        is_due = False
        for sequence in running:
            guesses = self._guesses.get(sequence)
            if guesses is not None and guesses.pause:
                guesses.pause -= 1
            elif sequence.num_outputs:
                is_due = True
        return is_due

    def propose(self, running: Collection[Sequence]) -> None:
        """Set the drafts of those that lack one token, which is known."""
        share = self._share(len(running))
        wanted: list[tuple[Sequence, int]] = []
        for sequence in running:
            if sequence.num_pending or sequence.target - sequence.num_computed != 1:
                continue
            guesses = self._guesses.setdefault(sequence, _Guesses())
            left = sequence.params.max_tokens - sequence.num_outputs - 1
            count = min(guesses.length, share, left)
            if count > 0 and not guesses.pause:
                wanted.append((sequence, count))
        for (sequence, _), drafts in zip(wanted, self._texts.follow(wanted), strict=True):
            sequence.drafts = drafts
            self._proposed.append(sequence)

    def judge(self, sequence: Sequence, num_drafts: int, num_right: int) -> None:
        """Learn what became of drafts."""
        self.proposed += num_drafts
        self.accepted += num_right
        self._guesses[sequence].judge(num_drafts, num_right)

    def remove(self, sequence: Sequence) -> None:
        self._guesses.pop(sequence, None)
        self._texts.remove(sequence)

    def _share(self, num_running: int) -> int:
        return max(0, min(self._most, _MOST_ROWS // max(1, num_running) - 1))


def num_accepted(drafts: Seq[int], tokens: Seq[int | None]) -> int:
    """Drafts up to the first that is not what was drawn in its place."""
    for at, draft in enumerate(drafts):
        if tokens[at] != draft:
            return at
    return len(drafts)
