"""What each row is drawn with: its seed, the tokens before it, and what may not come."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Protocol

from torch import Tensor

from ..core import Grammar, Sequence
from ..kernels.draw import Draw, banned_tokens
from .scheduler import Scheduled

__all__ = ["GrammarState", "Rules"]


class GrammarState(Protocol):
    """How far one output has come in its grammar."""

    @property
    def is_finished(self) -> bool: ...
    @property
    def obstacle(self) -> str: ...
    def allowed(self) -> Tensor | None: ...
    def advance(self, token: int) -> bool: ...
    def copy(self) -> GrammarState: ...


class Rules:
    """The draws of sequences, each from its params and from how far its output has come.

    Args:
        seed: Seeds sequences that bring no seed, each differently.
        eos: Tokens that end the model's turn.
        compile: Makes a grammar's state at the start of an output.
    """

    def __init__(
        self, *, seed: int, eos: Set[int], compile: Callable[[Grammar], GrammarState]
    ) -> None:
        self._seed = seed
        self._eos = eos
        self._compile = compile
        self._grammars: dict[Sequence, GrammarState] = {}

    def add(self, sequence: Sequence) -> GrammarState | None:
        """Compile a sequence's grammar, if it has one.

        Raises:
            ValueError: It is none.
        """
        if sequence.params.grammar is None:
            return None
        grammar = self._grammars[sequence] = self._compile(sequence.params.grammar)
        return grammar

    def remove(self, sequence: Sequence) -> None:
        self._grammars.pop(sequence, None)

    def draws(self, entry: Scheduled) -> list[Draw]:
        """What its rows are sampled with, one for each draft and one more.

        Of one that `waits_for_host`, all output before `entry.output_index` must be known. A row
        has no mask where its grammar cannot go on, or forbids a draft before it: what is drawn
        there is no part of the output.
        """
        sequence = entry.sequence
        drafts, output = sequence.drafts[: entry.num_drafts], sequence.output_token_ids
        grammar = self._grammars.get(sequence)
        draws = []
        for at in range(len(drafts) + 1):
            allowed = None if grammar is None else grammar.allowed()
            before = output + drafts[:at] if at else output
            draws.append(self._draw(sequence, entry.output_index + at, before, allowed))
            if grammar is not None and at < len(drafts):
                grammar = grammar.copy()
                if not grammar.advance(drafts[at]):
                    grammar = None
        return draws

    def _draw(
        self, sequence: Sequence, index: int, output: list[int], allowed: Tensor | None
    ) -> Draw:
        params, seed = sequence.params, sequence.params.seed
        if seed is None:
            # Apart from each other, and from the seeds that callers choose.
            seed = (self._seed + 1) * 0x9E3779B97F4A7C15 + sequence.arrival
        may_not_end = index < params.min_tokens or params.grammar is not None
        return Draw(
            params,
            seed & 0xFFFFFFFFFFFFFFFF,
            index,
            sequence.prompt_token_ids,
            output,
            allowed,
            banned_tokens(params, self._eos, index) if may_not_end else (),
        )
