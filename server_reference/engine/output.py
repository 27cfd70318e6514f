"""One sequence's output: when it ends, its text, and what the front is told of it."""

from __future__ import annotations

from collections.abc import Set

from ..core import FinishReason, Sequence, SequenceUpdate, StageTimes, TokenLogprob
from ..text.detokenizer import Detokenizer
from .model_runner import Drawn
from .rules import GrammarState

__all__ = ["Output"]

_NOT_TOLD = StageTimes()
_NOT_NUMBERS = (
    "the model computed logits that are not numbers for this sequence; "
    "run it with dtype='fp32', or check the checkpoint"
)
_CANNOT_GO_ON = (
    "the output can go no further under its grammar, after {} tokens: {}; simplify the schema, "
    "the tools or the pattern that it must match"
)


class Output:
    """What the engine knows of a sequence besides what is to be computed.

    Args:
        eos: Tokens that end the model's turn.
        added: When it came, by the engine's clock.

    Attributes:
        finish_reason: `None` while it runs.
        started: When it was first scheduled.
    """

    def __init__(
        self,
        sequence: Sequence,
        detokenizer: Detokenizer,
        grammar: GrammarState | None,
        *,
        eos: Set[int],
        added: float,
    ) -> None:
        self.sequence = sequence
        self._detokenizer = detokenizer
        self._grammar = grammar
        self._output = sequence.output_token_ids
        self._min_tokens, self._max_tokens = sequence.params.min_tokens, sequence.params.max_tokens
        # Why an output ends before a token.
        self._ends: dict[int, FinishReason] = dict.fromkeys(
            sequence.params.stop_token_ids, "stop_sequence"
        )
        if not sequence.params.ignore_eos:
            self._ends |= dict.fromkeys(eos, "stop")
        self._is_over: FinishReason | None = None if sequence.params.max_tokens else "length"
        self._added = added
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
        text, reason = "", self._is_over
        error: str | None = None
        token_ids: list[int] = []
        for token in drawn.token_ids:
            if token is None:
                reason, error = "error", _NOT_NUMBERS
                break
            if self._grammar is not None and not self._grammar.advance(token):
                error = _CANNOT_GO_ON.format(len(self._output), self._grammar.obstacle)
                reason = "invalid"
                break
            reason = self._ends.get(token)
            if reason is not None:
                break
            token_ids.append(token)
            self._output.append(token)
            text += self._detokenizer.push(token, may_stop=len(self._output) > self._min_tokens)
            reason = self._why_over()
            if reason is not None:
                break
        logprobs = list(drawn.logprobs[: len(token_ids)])
        if reason is not None:
            return self.end(reason, error=error, text=text, token_ids=token_ids, logprobs=logprobs)
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

    def _why_over(self) -> FinishReason | None:
        """Why no token comes after this one, if that is so."""
        if self._detokenizer.stopped_by is not None:
            return "stop_sequence"
        if self._grammar is not None and self._grammar.is_finished:
            return "stop"
        return "length" if len(self._output) >= self._max_tokens else None

    def _update(
        self,
        text: str,
        token_ids: list[int],
        logprobs: list[TokenLogprob],
        error: str | None = None,
    ) -> SequenceUpdate:
        sequence, told = self.sequence, self._prompt_logprobs
        is_between = self._last_token is not None and self.finish_reason is None
        if told:
            self._prompt_logprobs = []
        return SequenceUpdate(
            sequence.id,
            text,
            token_ids,
            len(sequence.output_token_ids),
            sequence.num_cached,
            _NOT_TOLD if is_between else self._times(),
            self.finish_reason,
            self._detokenizer.stopped_by,
            error,
            logprobs,
            told,
        )

    def _times(self) -> StageTimes:
        started, first, last = self.started, self._first_token, self._last_token
        if started is None:
            return StageTimes()
        queue = started - self._added
        if first is None:
            return StageTimes(queue=queue)
        decode = None if last is None else last - first
        return StageTimes(queue=queue, prefill=first - started, decode=decode)
