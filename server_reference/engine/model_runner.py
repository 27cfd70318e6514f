"""Run the model on a scheduled step and sample its next tokens."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..attention.backend import AttentionBackend
from ..attention.batch import Batch
from ..core import Sequence, TokenLogprob
from ..kernels.draw import Draw, waits_for_host
from ..kernels.logprobs import prompt_logprobs
from ..kernels.sampler import Sampled
from ..kernels.transfer import Fetched, send
from ..models.transformer import Transformer
from .batch_builder import BatchBuilder
from .rules import Rules
from .scheduler import Scheduled, Step
from .speculation import num_accepted

if TYPE_CHECKING:
    from .graphs import DecodeGraphs  # which needs triton

__all__ = ["Drawn", "Flight", "LogitsObserver", "ModelRunner"]

LogitsObserver = Callable[[Seq[Sequence], Tensor], None]
"""Called with the sequence of every token that was drawn and their logits,
`[rows, vocab_size]`, fp32."""

_PROMPT_ROWS = 64  # of a prompt, whose logits are made at a time


@dataclass(slots=True, eq=False)
class Flight:
    """A step that was launched: its batch, its logits, and what was drawn from them.

    Attributes:
        sampled: The work that `batch.sampled` says.
        size: Of the recorded step that it ran as; `None`: it was no such step.
        finite: Which rows of the last layer are numbers, where not every one gets logits.
        prompts: Work whose prompt's logprobs are asked for, and its rows of the last layer.
        drawn: Rows of the logits, and what was drawn from them.
    """

    step: Step
    batch: Batch
    sampled: list[Scheduled]
    logits: Tensor | None = None
    size: int | None = None
    finite: Fetched | None = None
    prompts: list[tuple[Scheduled, Tensor]] = field(default_factory=list)
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
        record: Records steps of decodes, given where the token that each row drew last is.
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
        record: Callable[[Tensor], DecodeGraphs] | None = None,
    ) -> None:
        self._transformer = transformer
        self._attention = attention
        self._builder = builder
        self._rules = rules
        self._on_logits = on_logits
        self._device = transformer.device
        # By row, what it drew last; and a place for what no row drew.
        self._newest = torch.zeros(max_num_seqs + 1, dtype=torch.int64, device=self._device)
        self._graphs = None if record is None else record(self._newest)

    def launch(self, step: Step) -> Flight:
        """Start a step's forward pass, with tokens that the step before sampled."""
        batch = self._builder.build(step)
        flight = Flight(step, batch, [step.scheduled[at] for at in batch.sampled.tolist()])
        if self._graphs is not None:
            flight.size = self._graphs.size_of(batch)
            if flight.size is not None:
                logits = self._graphs.forward(batch, flight.size)
                flight.logits = logits.clone() if self._outlives(flight) else logits
                return flight
        self._attention.begin(batch)
        with torch.inference_mode():
            hidden = self._transformer.hidden(
                self._send(batch.token_ids),
                self._send(batch.positions),
                self._attention,
                newest=self._newest if (batch.token_ids < 0).any() else None,
            )
            if len(batch.sampled):
                flight.logits = self._transformer.logits(hidden[self._send(batch.sample_rows)])
            if len(batch.sample_rows) < len(hidden):
                flight.finite = Fetched(hidden.isfinite().all(-1))
        flight.prompts = _prompt_rows(step, batch, hidden)
        return flight

    def sample(self, flight: Flight, *, needs_host: bool) -> None:
        """Draw the tokens of a launched step: of the rows for which all output before them
        must be known on the host, or of the others.
        """
        logits = flight.logits
        if logits is None:
            return
        rows: list[int] = []
        draws: list[Draw] = []
        firsts, places, end = [], [], 0
        for place, entry in enumerate(flight.sampled):
            start, end = end, end + 1 + entry.num_drafts
            if needs_host == waits_for_host(entry.sequence.params):
                firsts.append(len(rows))
                places.append(place)
                rows += range(start, end)
                draws += self._rules.draws(entry)
        if not rows:
            return
        is_whole = len(rows) == len(logits)
        if flight.size is not None and is_whole and not any(draw.has_rule for draw in draws):
            assert self._graphs is not None, "it has recorded the step"
            sampled = self._graphs.sample(logits, flight.batch, flight.size, draws)
        else:
            with torch.inference_mode():
                chosen = logits if is_whole else logits[self._send(np.array(rows))]
                sampled = self._transformer.operations.sample(chosen, draws)
                # A token that is none ends its sequence: what runs ahead with it is dropped.
                owners = flight.batch.rows[flight.batch.sampled[places]]
                tokens = sampled.tokens[self._send(np.array(firsts))]
                self._newest.index_copy_(0, self._send(owners), tokens)
        flight.drawn.append((rows, sampled))

    def _send(self, values: NDArray[np.int64]) -> Tensor:
        return send(values, self._device)

    def _outlives(self, flight: Flight) -> bool:
        """Whether logits are looked at when the next step may have taken their place."""
        asks = any(entry.sequence.params.logprobs is not None for entry in flight.sampled)
        return asks or self._on_logits is not None

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
        for entry in flight.sampled:
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
            self._on_logits(owners, flight.logits[rows].cpu())
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
    finite = None if flight.finite is None else flight.finite.wait()
    if finite is not None and not finite.all():
        (rows,) = (~finite.numpy()).nonzero()
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
