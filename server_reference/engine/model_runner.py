"""Run the model on a scheduled step and sample its next tokens."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from math import isnan
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import Sequence, TokenLogprob
from ..kernels.draw import Draw, waits_for_host
from ..kernels.logprobs import prompt_logprobs
from ..kernels.sampler import Sampled, sample
from ..models.transformer import Transformer
from .attention_backends import AttentionBackend
from .batch_builder import Batch, BatchBuilder
from .rules import Rules
from .scheduler import Scheduled, Step
from .speculation import num_accepted

__all__ = ["Drawn", "Flight", "LogitsObserver", "ModelRunner"]

LogitsObserver = Callable[[Seq[Sequence], Tensor], None]
"""Called with the sequence of every token that was drawn and their logits,
`[rows, vocab_size]`, fp32."""

_PROMPT_ROWS = 64  # of a prompt, whose logits are made at a time


@dataclass(slots=True, eq=False)
class Flight:
    """A step that was launched: its batch, its logits, and what was drawn from them.

    Attributes:
        finite: Which rows of the last layer are numbers, where not every one gets logits.
        prompts: Work whose prompt's logprobs are asked for, and its rows of the last layer.
        drawn: Rows of the logits, and what was drawn from them.
    """

    step: Step
    batch: Batch
    logits: Tensor | None
    finite: Tensor | None
    prompts: list[tuple[Scheduled, Tensor]]
    drawn: list[tuple[list[int], Sampled]] = field(default_factory=list)


class Drawn(NamedTuple):
    """What a step brought one sequence.

    Attributes:
        row: The first of its rows of the logits.
        token_ids: New tokens; none where no output was asked for, or not all of the prompt is
            computed. `None`, at their end, stands for what the model computed being no numbers.
        logprobs: Of each of those.
        prompt_logprobs: Of the prompt's tokens from `entry.start + 1` on.
    """

    entry: Scheduled
    row: int
    token_ids: list[int | None]
    logprobs: Seq[TokenLogprob] = ()
    prompt_logprobs: Seq[TokenLogprob] = ()


class ModelRunner:
    """One model with its KV cache.

    Args:
        transformer: The model.
        attention: The device's attention, which owns the KV cache.
        builder: Lays out steps.
        rules: What each row is sampled with.
        max_num_seqs: Rows that sequences may have.
        on_logits: Sees the logits of all tokens that are drawn.
    """

    def __init__(
        self,
        transformer: Transformer,
        attention: AttentionBackend,
        builder: BatchBuilder,
        rules: Rules,
        *,
        max_num_seqs: int,
        on_logits: LogitsObserver | None = None,
    ) -> None:
        self._transformer = transformer
        self._attention = attention
        self._builder = builder
        self._rules = rules
        self._on_logits = on_logits
        self._newest = torch.zeros(max_num_seqs, dtype=torch.int64)  # by row: what it drew last

    def launch(self, step: Step) -> Flight:
        """Start a step's forward pass, with tokens that the step before sampled."""
        batch = self._builder.build(step)
        self._attention.begin(batch)
        with torch.inference_mode():
            token_ids = torch.from_numpy(batch.token_ids)
            if len(batch.carried):
                carried = self._newest[torch.from_numpy(batch.carried_from)]
                token_ids[torch.from_numpy(batch.carried)] = carried
            hidden = self._transformer.hidden(
                token_ids, torch.from_numpy(batch.positions), self._attention
            )
            logits = finite = None
            if batch.sampled:
                logits = self._transformer.logits(hidden[torch.from_numpy(batch.sample_rows)])
            if len(batch.sample_rows) < len(hidden):
                finite = hidden.isfinite().all(-1)
        return Flight(step, batch, logits, finite, _prompt_rows(step, batch, hidden))

    def sample(self, flight: Flight, *, needs_host: bool) -> None:
        """Draw the tokens of a launched step: of the rows for which all output before them
        must be known on the host, or of the others.
        """
        if flight.logits is None:
            return
        rows: list[int] = []
        draws: list[Draw] = []
        firsts, places, end = [], [], 0
        for place, entry in enumerate(flight.batch.sampled):
            start, end = end, end + 1 + entry.num_drafts
            if needs_host == waits_for_host(entry.sequence.params):
                firsts.append(len(rows))
                places.append(place)
                rows += range(start, end)
                draws += self._rules.draws(entry)
        if rows:
            is_whole = len(rows) == len(flight.logits)
            with torch.inference_mode():
                sampled = sample(flight.logits if is_whole else flight.logits[rows], draws)
                # A token that is none ends its sequence: what runs ahead with it is dropped.
                self._newest[flight.batch.sampled_from[places]] = sampled.tokens[firsts].clamp(0)
            flight.drawn.append((rows, sampled))

    def collect(self, flight: Flight, live: Container[Sequence]) -> list[Drawn]:
        """What a sampled step brought the sequences that are live still.

        Of one that does not reach its target there is only what was asked for of its prompt,
        if anything was. Where the model computed what is no numbers, the others are told of
        as well.
        """
        tokens, logprobs = _on_host(flight)
        told = {
            entry.sequence: self._of_prompt(entry, rows)
            for entry, rows in flight.prompts
            if entry.sequence in live
        }
        broken = _broken(flight, told)
        drawn: list[Drawn] = []
        end, new = 0, tuple.__new__  # a hot loop
        for entry in flight.batch.sampled:
            sequence, _, _, _, num_drafts, _ = entry
            start, end = end, end + 1 + num_drafts
            if sequence in broken or (sequence not in live and tokens[start] is not None):
                continue
            stop = start + 1
            if num_drafts:
                stop += num_accepted(sequence.drafts[:num_drafts], tokens[start:end])
            its: Seq[TokenLogprob] = ()
            if logprobs:
                its = [logprobs[row] for row in range(start, stop) if row in logprobs]
            prompt = told.pop(sequence, ()) if told else ()
            drawn.append(new(Drawn, (entry, start, tokens[start:stop], its, prompt)))
        if self._on_logits is not None and flight.logits is not None:
            kept = [one for one in drawn if one.entry.sequence in live]
            owners = [one.entry.sequence for one in kept for _ in one.token_ids]
            rows = [one.row + at for one in kept for at in range(len(one.token_ids))]
            self._on_logits(owners, flight.logits[rows])
        for entry in flight.step.scheduled if len(drawn) < len(flight.step.scheduled) else ():
            sequence, prompt = entry.sequence, told.get(entry.sequence, ())
            if sequence in broken:
                drawn.append(Drawn(entry, end, [None], (), ()))
            elif sequence in live and not entry.is_sampled and (prompt or entry.reaches_target):
                drawn.append(Drawn(entry, end, [], (), prompt))
        return drawn

    def _of_prompt(self, entry: Scheduled, hidden: Tensor) -> list[TokenLogprob]:
        sequence, at = entry.sequence, entry.start + 1
        told: list[TokenLogprob] = []
        for rows in torch.split(hidden, _PROMPT_ROWS):
            next_ids = sequence.prompt_token_ids[at + len(told) :][: len(rows)]
            logits = self._transformer.logits(rows)
            told += prompt_logprobs(logits, next_ids, sequence.params.prompt_logprobs or 0)
        return told


def _prompt_rows(step: Step, batch: Batch, hidden: Tensor) -> list[tuple[Scheduled, Tensor]]:
    """Rows that tell of a token of the prompt, where its logprobs are asked for."""
    found = []
    for at, entry in enumerate(step.scheduled):
        params, num_prompt = entry.sequence.params, len(entry.sequence.prompt_token_ids)
        is_asked = params.prompt_logprobs is not None and entry.output_index == 0
        if is_asked and entry.start < num_prompt - 1:
            first = int(batch.query_start[at])
            num_rows = min(entry.stop, num_prompt - 1) - entry.start
            found.append((entry, hidden[first : first + num_rows]))
    return found


def _broken(flight: Flight, told: Mapping[Sequence, Seq[TokenLogprob]]) -> set[Sequence]:
    """Sequences without drafts of which a row, or what is told of the prompt, is no numbers."""
    broken = {one for one, its in told.items() if any(isnan(each.logprob) for each in its)}
    if flight.finite is not None and not flight.finite.all():
        (rows,) = (~flight.finite.numpy(force=True)).nonzero()
        entries = flight.batch.query_start.searchsorted(rows, side="right") - 1
        found = (flight.step.scheduled[at] for at in set(entries.tolist()))
        broken |= {entry.sequence for entry in found if not entry.num_drafts}
    return broken


def _on_host(flight: Flight) -> tuple[list[int | None], dict[int, TokenLogprob]]:
    """Tokens of all rows of the logits, and logprobs by row, where they are asked for."""
    tokens: list[int | None] = [0] * len(flight.batch.sample_rows)  # if its sequence has left
    logprobs: dict[int, TokenLogprob] = {}
    for rows, sampled in flight.drawn:
        found = sampled.host_tokens()
        if len(found) == len(tokens):
            tokens = found
        else:
            for row, token in zip(rows, found, strict=True):
                tokens[row] = token
        if any(draw.params.logprobs is not None for draw in sampled.draws):
            told = zip(rows, sampled.host_logprobs(), strict=True)
            logprobs |= {row: logprob for row, logprob in told if logprob is not None}
    return tokens, logprobs
