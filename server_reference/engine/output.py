"""One sequence's output: when it ends, its text, and what the front is told of it."""

from __future__ import annotations

from collections.abc import Set

from ..core import FinishReason, Sequence, SequenceUpdate, StageTimes, TokenLogprob
from .detokenizer import Detokenizer
from .model_runner import Drawn
from .rules import GrammarState

__all__ = ["Output"]

_NOT_NUMBERS = (
    "the model computed logits that are not numbers for this sequence; "
    "run it with dtype='fp32', or check the checkpoint"
)


class Output:
    """What the engine knows of a sequence besides what is to be computed.

    Args:
        eos: Tokens that end the model's turn.
        added: When it came, by the engine's clock.
        deadline: When nobody waits for it any more.

    Attributes:
        finish_reason: `None` while it runs.
    """

    __slots__ = (
        "_detokenizer",
        "_eos",
        "_first_token",
        "_grammar",
        "_last_token",
        "_prompt_logprobs",
        "added",
        "deadline",
        "finish_reason",
        "sequence",
        "started",
    )

    def __init__(
        self,
        sequence: Sequence,
        detokenizer: Detokenizer,
        grammar: GrammarState | None,
        *,
        eos: Set[int],
        added: float,
        deadline: float | None = None,
    ) -> None:
        self.sequence = sequence
        self._detokenizer = detokenizer
        self._grammar = grammar
        self._eos: Set[int] = frozenset() if sequence.params.ignore_eos else eos
        self.added = added
        self.deadline = deadline
        self.started: float | None = None
        self._first_token: float | None = None
        self._last_token: float | None = None
        self._prompt_logprobs: list[TokenLogprob] = []
        self.finish_reason: FinishReason | None = None

    def read(self, drawn: Drawn) -> None:
        """Keep what was told of the prompt; what is computed again is not told again."""
        told = drawn.prompt_logprobs
        self._prompt_logprobs += told[len(self._prompt_logprobs) - drawn.entry.start :]

    def take(self, drawn: Drawn, now: float) -> SequenceUpdate:
        """Add the tokens of a step, up to the one that ends the output."""
        if self._first_token is None:
            self._first_token = now
        else:
            self._last_token = now
        if any(one.logprob != one.logprob for one in self._prompt_logprobs):
            self._prompt_logprobs = []
            return self.end("error", error=_NOT_NUMBERS)
        text, reason = "", None
        token_ids: list[int] = []
        for token in drawn.token_ids:
            if token is None:
                return self.end("error", error=_NOT_NUMBERS, text=text, token_ids=token_ids)
            reason = self._ends_before(token)
            if reason is not None:
                break
            token_ids.append(token)
            more, reason = self._add(token)
            text += more
            if reason is not None:
                break
        if self.sequence.params.max_tokens == 0:
            reason = "length"
        logprobs = [one for one in drawn.logprobs[: len(token_ids)] if one is not None]
        if reason is not None:
            return self.end(reason, text=text, token_ids=token_ids, logprobs=logprobs)
        return self._update(text, token_ids, logprobs)

    def end(
        self,
        reason: FinishReason,
        *,
        error: str | None = None,
        text: str = "",
        token_ids: list[int] | None = None,
        logprobs: list[TokenLogprob] | None = None,
    ) -> SequenceUpdate:
        """The last update, which brings the text that was held back."""
        text += self._detokenizer.flush()
        if reason in ("stop", "length") and self._detokenizer.stopped_by is not None:
            reason = "stop_sequence"  # completed by the flushed character
        self.finish_reason = reason
        return self._update(text, token_ids or [], logprobs or [], error)

    def _ends_before(self, token: int) -> FinishReason | None:
        """Why this token ends the output and is no part of it."""
        if token in self._eos:
            return "stop"
        return "stop_sequence" if token in self.sequence.params.stop_token_ids else None

    def _add(self, token: int) -> tuple[str, FinishReason | None]:
        """The text that a token makes certain, and why it is the last one, if it is."""
        sequence, detokenizer = self.sequence, self._detokenizer
        params, output = sequence.params, sequence.output_token_ids
        output.append(token)
        text = detokenizer.push(token, may_stop=len(output) > params.min_tokens)
        if detokenizer.stopped_by is not None:
            return text, "stop_sequence"
        if self._grammar is not None:
            self._grammar.advance(token)
            if self._grammar.is_finished:
                return text, "stop"
        return text, "length" if len(output) >= params.max_tokens else None

    def _update(
        self,
        text: str,
        token_ids: list[int],
        logprobs: list[TokenLogprob],
        error: str | None = None,
    ) -> SequenceUpdate:
        sequence, told = self.sequence, self._prompt_logprobs
        if told:
            self._prompt_logprobs = []
        return SequenceUpdate(
            id=sequence.id,
            text=text,
            token_ids=token_ids,
            num_output_tokens=len(sequence.output_token_ids),
            num_cached_tokens=sequence.num_cached,
            times=StageTimes(
                queue=_between(self.added, self.started),
                prefill=_between(self.started, self._first_token),
                decode=_between(self._first_token, self._last_token),
            ),
            finish_reason=self.finish_reason,
            stop_sequence=self._detokenizer.stopped_by,
            error=error,
            logprobs=logprobs,
            prompt_logprobs=told,
        )


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start
