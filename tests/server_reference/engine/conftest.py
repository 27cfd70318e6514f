"""What tests of the engine share: the built-in model in its exact form, and a way to run it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from server_reference.attention.backend import AttentionBackend
from server_reference.checkpoints.load import LoadedModel, load
from server_reference.config import EngineConfig
from server_reference.core import GenerateRequest, SamplingParams, Sequence, SequenceUpdate
from server_reference.engine.engine import Engine
from server_reference.engine.model_runner import LogitsObserver
from server_reference.engine.parts import Body
from server_reference.engine.speculation import HostTexts

EXACT = EngineConfig(
    model="tiny", dtype="fp32", numerics="deterministic", num_blocks=64, prefill_stretch=None
)


@dataclass
class Recorder:
    """What came of each sequence: its tokens, its logits, its updates."""

    sequences: dict[str, Sequence] = field(default_factory=dict)
    logits: dict[str, list[Tensor]] = field(default_factory=dict)
    updates: dict[str, list[SequenceUpdate]] = field(default_factory=dict)

    def on_logits(self, sequences: Iterable[Sequence], logits: Tensor) -> None:
        for sequence, row in zip(sequences, logits, strict=True):
            self.sequences[sequence.id] = sequence
            self.logits.setdefault(sequence.id, []).append(row.clone())

    def run(self, engine: Engine, *, steps: int = 10_000) -> None:
        """Step until there is no work, with the books checked after every step."""
        while engine.has_work and steps:
            for update in engine.step():
                self.updates.setdefault(update.id, []).append(update)
            engine.scheduler.check()
            steps -= 1

    def tokens(self, id: str) -> list[int]:
        return self.sequences[id].output_token_ids

    def has_finished(self, id: str) -> bool:
        return id in self.updates and self.updates[id][-1].finish_reason is not None

    def text(self, id: str) -> str:
        return "".join(update.text for update in self.updates[id])


class WordTokenizer:
    """Every token is `<id>`, so that texts can be read; chosen ones end the turn."""

    def __init__(self, eos: Iterable[int] = ()) -> None:
        self.eos_token_ids = frozenset(eos)

    def token_bytes(self, token_id: int) -> bytes:
        return f"<{token_id}>".encode()


@pytest.fixture(scope="session")
def tiny() -> LoadedModel:
    torch.set_num_threads(1)
    return load(EXACT)


@pytest.fixture(scope="session")
def words(tiny: LoadedModel) -> Callable[..., LoadedModel]:
    """The built-in model with readable tokens."""
    return lambda **options: replace(tiny, tokenizer=WordTokenizer(**options))


@pytest.fixture(scope="session", params=[0, 1], ids=["lookahead-0", "lookahead-1"])
def lookahead(request: pytest.FixtureRequest) -> int:
    """Whoever makes an engine runs with both."""
    return int(request.param)


@pytest.fixture(scope="session")
def an_engine(
    words: Callable[..., LoadedModel], lookahead: int
) -> Callable[..., tuple[Engine, Recorder]]:
    """Makes an engine, small and exact unless told otherwise, and its recorder."""

    def make(
        model: LoadedModel | None = None,
        *,
        recorder: Recorder | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_logits: LogitsObserver | None = None,
        attention: AttentionBackend | None = None,
        body: Body | None = None,
        **config: object,
    ) -> tuple[Engine, Recorder]:
        recorder = recorder or Recorder()
        engine = Engine(
            model or words(),
            replace(EXACT, **({"lookahead": lookahead} | config)),
            clock=clock,
            on_logits=on_logits or recorder.on_logits,
            body=Body(attention, None, HostTexts()) if attention else body,
        )
        return engine, recorder

    return make


@pytest.fixture(scope="session")
def a_request() -> Callable[..., GenerateRequest]:
    def make(id: str = "a", num_prompt: int = 20, *, tenant: str = "t", **params: object):
        """A prompt that depends on `id`, with greedy sampling unless told otherwise."""
        prompt = params.pop("prompt", None)
        if prompt is None:
            generator = torch.Generator().manual_seed(sum(id.encode()))
            prompt = torch.randint(1, 256, (num_prompt,), generator=generator).tolist()
        return GenerateRequest(
            id=id,
            tenant=tenant,
            prompt_token_ids=prompt,
            params=SamplingParams(**({"max_tokens": 8, "temperature": 0.0} | params)),
        )

    return make
