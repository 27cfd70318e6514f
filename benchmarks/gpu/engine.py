"""The engine at the shape of nano-vllm's benchmark, and what its steps cost the host.

Source:
    GeeeekExplorer/nano-vllm, bench.py: the same requests, drawn in the same order.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import Any

from torch import Tensor

from server_reference.attention.batch import Batch
from server_reference.config import EngineConfig
from server_reference.core import GenerateRequest, SamplingParams
from server_reference.engine.engine import Engine
from server_reference.engine.graphs import DecodeGraphs
from server_reference.engine.parts import Body
from server_reference.kernels.draw import Draw
from server_reference.kernels.sampler import Sampled
from server_reference.kernels.transfer import Fetched
from server_reference.roofline import CHIPS, Chip, Roofline

from .device import Device
from .figures import Figure, Target
from .model import body, loaded, random_weights
from .sizes import Sizes

__all__ = ["host_time", "least_seconds", "requests", "throughput"]

_H200_TOKENS = 24_600
_SHARE = 0.6
_TEMPERATURE = 0.6


def requests(sizes: Sizes) -> list[tuple[list[int], int]]:
    """Prompts, and how many tokens each output has."""
    draw = Random(0)
    count = range(sizes.num_seqs)
    prompts = [
        [draw.randrange(sizes.vocabulary) for _ in range(draw.randint(sizes.least, sizes.most))]
        for _ in count
    ]
    return [(prompt, draw.randint(sizes.least, sizes.most)) for prompt in prompts]


def throughput(device: Device, sizes: Sizes, chip: Chip) -> Iterator[Figure]:
    """Output tokens a second of the engine as it sets itself up, all requests at once."""
    its = requests(sizes)
    begun = time.perf_counter()
    engine = _engine(device, sizes)
    made = time.perf_counter() - begun
    _run(device, engine, [(prompt[:8], 4) for prompt, _ in its[:2]])
    run = _run(device, engine, its)
    tokens = sum(output for _, output in its)
    assert run.tokens == tokens, f"{run.tokens:,} tokens came of {tokens:,}"
    speed, notes = run.tokens / run.seconds, engine.notes
    preemptions = engine.stats().preemptions
    del engine
    gc.collect()
    device.forget()
    lens = [(len(prompt), output) for prompt, output in its]
    name = f"{len(its)} requests, {run.tokens:,} tokens in {run.steps:,} steps"
    for best, ceiling in (("measured roofline", chip), ("stated roofline", _stated(chip))):
        if ceiling is not None:
            least = least_seconds(_roofline(device, sizes, ceiling), lens, sizes.max_step_tokens)
            yield Figure(
                stage="engine",
                name=name,
                value=speed,
                unit="tokens/s",
                share=least / run.seconds,
                best=best,
                note=f"made in {made:.1f} s; {preemptions:,} preemptions; {'; '.join(notes)}",
                target=_target(chip, speed, least / run.seconds, best),
            )


def _target(chip: Chip, speed: float, share: float, best: str) -> Target | None:
    if best == "measured roofline":
        return None
    if "H200" in chip.name:
        return Target(value=speed, least=_H200_TOKENS, what="tokens/s")
    return Target(value=share, least=_SHARE, what="share of the roofline")


def _stated(chip: Chip) -> Chip | None:
    """What the maker says of it."""
    return next((one for name, one in CHIPS.items() if name in chip.name), None)


def _roofline(device: Device, sizes: Sizes, chip: Chip) -> Roofline:
    size = device.dtype.itemsize
    return Roofline(
        config=sizes.model, chip=chip, weight_bytes=size, kv_bytes=size, activation_bytes=size
    )


def least_seconds(
    roofline: Roofline, lens: Sequence[tuple[int, int]], max_step_tokens: int
) -> float:
    """Of prompts in full steps first, then of all outputs side by side until each has ended."""
    total, step, left = 0.0, list[tuple[int, int]](), max_step_tokens
    for prompt, _ in lens:
        if prompt > left:
            total, step, left = total + roofline.seconds(step), [], max_step_tokens
        step.append((prompt, prompt))
        left -= prompt
    total += roofline.seconds(step)
    for made in range(1, max(output for _, output in lens)):
        total += roofline.seconds([(1, prompt + made) for prompt, output in lens if made < output])
    return total


@dataclass(frozen=True, slots=True)
class _Run:
    tokens: int
    seconds: float
    steps: int


def _run(device: Device, engine: Engine, its: Sequence[tuple[list[int], int]]) -> _Run:
    """From the first request's arrival to the last one's end."""
    device.wait()
    begun, tokens, steps = time.perf_counter(), 0, 0
    _add(engine, its)
    while engine.has_work:
        for update in engine.step():
            assert update.error is None, update.error
            tokens += len(update.token_ids)
        steps += 1
    device.wait()
    return _Run(tokens, time.perf_counter() - begun, steps)


def _add(engine: Engine, its: Sequence[tuple[list[int], int]]) -> None:
    for number, (prompt, output) in enumerate(its):
        params = SamplingParams(max_tokens=output, temperature=_TEMPERATURE, ignore_eos=True)
        engine.add(
            GenerateRequest(
                id=str(number), tenant="t", prompt_token_ids=list(prompt), params=params
            )
        )


def _config(device: Device, sizes: Sizes) -> EngineConfig:
    return EngineConfig(
        device="cuda" if device.device.type == "cuda" else "cpu",
        max_context=min(4 * sizes.most, sizes.model.max_context),
        block_size=sizes.block_size,
        max_num_seqs=sizes.num_seqs,
        max_step_tokens=sizes.max_step_tokens,
        max_prefill_share=sizes.max_step_tokens,
        prefill_stretch=None,
        max_queued=4 * sizes.num_seqs,
        lookahead=1,
    )


def _engine(device: Device, sizes: Sizes) -> Engine:
    """On a GPU with the pool, the attention and the recorded steps that it makes itself."""
    model = loaded(sizes.model, random_weights(sizes.model, device))
    if device.device.type == "cuda":
        return Engine(model, _config(device, sizes))
    num_blocks = sizes.num_seqs * -(-2 * sizes.most // sizes.block_size)
    config = replace(_config(device, sizes), num_blocks=num_blocks)
    return Engine(model, config, body=_body(device, sizes, model.transformer, num_blocks))


def _body(device: Device, sizes: Sizes, transformer: Any, num_blocks: int) -> Body:
    config = _config(device, sizes)
    return body(
        device,
        transformer,
        num_blocks=num_blocks,
        block_size=sizes.block_size,
        max_num_seqs=sizes.num_seqs,
        max_step_tokens=sizes.max_step_tokens,
        max_context=config.max_context or 0,
    )


class _Timed:
    """Tokens on their way to the host; counts how long the host waited for them."""

    def __init__(self, fetched: Fetched, watched: _Watched) -> None:
        self._fetched, self._watched = fetched, watched

    def wait(self) -> Tensor:
        begun = time.perf_counter()
        values = self._fetched.wait()
        self._watched.waited += time.perf_counter() - begun
        return values


class _Watched:
    """Recorded steps; how long the host waited for what was drawn in them."""

    def __init__(self, graphs: DecodeGraphs) -> None:
        self._graphs = graphs
        self.waited = 0.0

    def size_of(self, batch: Batch) -> int | None:
        return self._graphs.size_of(batch)

    def forward(self, batch: Batch, size: int) -> Tensor:
        return self._graphs.forward(batch, size)

    def sample(self, logits: Tensor, batch: Batch, size: int, draws: Sequence[Draw]) -> Sampled:
        sampled = self._graphs.sample(logits, batch, size, draws)
        fetched: Any = _Timed(sampled.fetched, self)
        return replace(sampled, fetched=fetched)


def host_time(device: Device, sizes: Sizes) -> Iterator[Figure]:
    """What a step of decodes costs the host, and how much of it the device hides."""
    steps, waits = _watch(device, sizes)
    gc.collect()
    device.forget()
    host = [step - wait for step, wait in zip(steps, waits, strict=True)]
    waited = median(waits) / median(steps)
    yield Figure(
        stage="host",
        name=f"a step of {sizes.num_seqs} decodes, which takes {median(steps) * 1e3:.2f} ms in all",
        value=median(host) * 1e3,
        unit="ms",
        beside={"waits for the device, ms": median(waits) * 1e3},
        target=Target(value=waited, least=0.01, what="share in which the host waits"),
    )


def _watch(device: Device, sizes: Sizes) -> tuple[list[float], list[float]]:
    """Seconds of each step of decodes alone, and of waiting in it."""
    model = loaded(sizes.model, random_weights(sizes.model, device))
    prompt, output = [1, 2, 3], sizes.watched + 8
    num_blocks = sizes.num_seqs * (1 + -(-(len(prompt) + output) // sizes.block_size))
    its = _body(device, sizes, model.transformer, num_blocks)
    watched: list[_Watched] = []
    record_size: Any = its.record

    def record(newest: Tensor) -> Any:
        watched.append(_Watched(record_size(newest, sizes=[sizes.num_seqs])))
        return watched[0]

    config = replace(_config(device, sizes), num_blocks=num_blocks)
    engine = Engine(model, config, body=its._replace(record=record))
    _add(engine, [(prompt, output)] * sizes.num_seqs)
    steps, waits = list[float](), list[float]()
    while engine.has_work:
        begun, before = time.perf_counter(), watched[0].waited
        made = len(engine.step())
        if made == sizes.num_seqs:
            steps.append(time.perf_counter() - begun)
            waits.append(watched[0].waited - before)
    device.wait()
    return steps, waits
