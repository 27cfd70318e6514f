"""Generate with a model in this process, without a server: many prompts at once.

torch is imported with this module, and `import server_reference` imports neither.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from operator import index
from threading import Lock
from typing import Any, TextIO, TypeAlias

import torch

from .checkpoints.load import load
from .checkpoints.registry import front
from .config import EngineConfig
from .core import FinishReason, GenerateRequest, SamplingParams, SequenceUpdate, TokenLogprob
from .engine.engine import Engine
from .text.chat_template import ChatTemplate

__all__ = ["LLM", "Output", "Prompt"]

Prompt: TypeAlias = str | Seq[int] | Seq[Mapping[str, Any]]
"""Text as it stands, token ids, or the messages of a conversation."""


@dataclass(slots=True, kw_only=True)
class Output:
    """What a prompt was answered with.

    Attributes:
        prompt: Its place among the prompts.
        text: Up to what ended it.
        token_ids: Its tokens, without one that ended it.
        finish_reason: `stop`, `stop_sequence` or `length`; `error` where the model failed, and
            `invalid` where the output could go no further under its grammar.
        stop_sequence: The stop string that came.
        error: Why it failed.
        logprobs: Of each of `token_ids`, where they were asked for.
        prompt_logprobs: Of the prompt's tokens but the first, likewise.
        num_prompt_tokens: Tokens of the prompt.
        num_cached_tokens: Those of them that were read from the prefix cache.
    """

    prompt: int
    num_prompt_tokens: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_sequence: str | None = None
    error: str | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    num_cached_tokens: int = 0

    def _add(self, update: SequenceUpdate) -> None:
        self.text += update.text
        self.token_ids += update.token_ids
        self.logprobs += update.logprobs
        self.prompt_logprobs += update.prompt_logprobs
        self.finish_reason, self.stop_sequence = update.finish_reason, update.stop_sequence
        self.error, self.num_cached_tokens = update.error, update.num_cached_tokens


class LLM:
    """A model in this process, for scripts and notebooks.

    Threads that call it wait for each other: prompts run side by side where they are given
    together. It sets torch's number of threads to `threads`, which is 1 unless it is given.

    Args:
        model: `tiny`, `smollm2`, a GGUF file, a folder with safetensors, or `org/model` of a hub.
        **config: Fields of `EngineConfig`; more may wait here than in a server.

    Raises:
        ModuleNotFoundError: The package was installed without its `server` extra.
        TypeError: An option is unknown.
        ValueError: An option's value is wrong.
        ModelUnavailableError: There is no such model, or it cannot be fetched.
    """

    def __init__(self, model: str = "tiny", **config: Any) -> None:
        self.config = EngineConfig(model=model, **({"max_queued": 2**20} | config))
        torch.set_num_threads(self.config.threads)
        loaded = load(self.config)
        self.tokenizer = loaded.tokenizer
        self.engine = Engine(loaded, self.config)
        self._num_requests = 0
        self._turn = Lock()

    def generate(
        self,
        prompts: Prompt | Seq[Prompt],
        params: SamplingParams | Seq[SamplingParams] | None = None,
        *,
        n: int = 1,
        progress: TextIO | bool = True,
    ) -> list[Output]:
        """Answer prompts, all of them side by side.

        Args:
            prompts: One or many. Of a conversation the model's chat template makes a prompt.
            params: For all of them, or for each one its own; `None` takes 256 tokens.
            n: Outputs of each prompt; a seed is increased by one for each further one.
            progress: Whether a line tells how far it is, if stderr is a terminal; or another
                place for it.

        Returns:
            `n` outputs of the first prompt, then those of the second, and so on.

        Raises:
            TypeError: A prompt or its params are of another kind.
            ValueError: A prompt or its params cannot be run; then none is.
            ChatTemplateError: The model's template refuses a conversation.
        """
        asked = _listed(prompts)
        each = _params_of_each(params, len(asked))
        if type(n) is not int or n < 1:
            raise ValueError(f"n must be an integer of at least 1, not {n!r}")
        token_ids = [self._tokens(prompt) for prompt in asked]
        outputs: dict[str, Output] = {}
        with self._turn:
            try:
                for place, (ids, its) in enumerate(zip(token_ids, each, strict=True)):
                    for request in self._requests(ids, its, n):
                        outputs[request.id] = Output(prompt=place, num_prompt_tokens=len(ids))
                        self._add(request, place)
                self._run(outputs, progress)
            finally:
                for id in outputs:
                    self.engine.abort(id)  # nothing of what an error or Ctrl-C left
        return list(outputs.values())

    @cached_property
    def _chat_template(self) -> ChatTemplate:
        return front(self.config.model).chat_template

    def _tokens(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            start = self.tokenizer.bos_token_id
            return ([] if start is None else [start]) + self.tokenizer.encode(prompt)
        items: list[Any] = list(prompt)
        if items and isinstance(items[0], Mapping):
            return self._chat_template.encode(self.tokenizer, items)
        try:
            return [index(item) for item in items]
        except TypeError as error:
            raise _no_prompt(items) from error

    def _requests(
        self, token_ids: list[int], params: SamplingParams, n: int
    ) -> Iterator[GenerateRequest]:
        for at in range(n):
            own = params
            if at and params.seed is not None:
                own = replace(params, seed=params.seed + at)
            self._num_requests += 1
            yield GenerateRequest(
                id=str(self._num_requests), tenant="", prompt_token_ids=token_ids, params=own
            )

    def _add(self, request: GenerateRequest, place: int) -> None:
        try:
            self.engine.add(request)
        except ValueError as error:
            raise ValueError(f"prompt {place} cannot be run: {error}") from error

    def _run(self, outputs: dict[str, Output], progress: TextIO | bool) -> None:
        place = sys.stderr if isinstance(progress, bool) else progress
        bar = place if progress and place.isatty() else None
        num_done = num_tokens = 0
        while self.engine.has_work:
            for update in self.engine.step():
                outputs[update.id]._add(update)
                num_done += update.finish_reason is not None
                num_tokens += len(update.token_ids)
            if bar is not None:
                bar.write(f"\r{num_done:,} of {len(outputs):,} outputs, {num_tokens:,} tokens ")
                bar.flush()
        if bar is not None:
            bar.write("\n")


def _listed(prompts: Prompt | Seq[Prompt]) -> list[Prompt]:
    """A single prompt is text, or a list of tokens or of messages."""
    if isinstance(prompts, str):
        return [prompts]
    if isinstance(prompts, bytes | Mapping) or not isinstance(prompts, Iterable):
        raise _no_prompt(prompts)
    items: list[Any] = prompts.tolist() if hasattr(prompts, "tolist") else list(prompts)
    if items and isinstance(items[0], Integral | Mapping):
        return [items]
    for item in items:
        if isinstance(item, bytes | Mapping) or not isinstance(item, Iterable):
            raise _no_prompt(item)
    return items


def _no_prompt(given: object) -> TypeError:
    return TypeError(
        f"a prompt is text, a list of token ids, or a list of messages, not {str(given)[:60]!r} "
        f"({type(given).__name__})"
    )


def _params_of_each(
    params: SamplingParams | Seq[SamplingParams] | None, count: int
) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams(max_tokens=256)] * count
    each = list(params)
    if not all(isinstance(one, SamplingParams) for one in each):
        raise TypeError("params must be SamplingParams, one for all prompts or one for each")
    if len(each) != count:
        raise ValueError(
            f"{len(each)} params were given for {count} prompts; give one for each, or one for all"
        )
    return each
