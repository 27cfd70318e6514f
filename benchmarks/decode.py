"""What one decode step costs the engine, in CPU time, beside transformers' `generate`."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import process_time
from typing import Any

from .answering import answer
from .figures import Figure, Outcome, Progress
from .processes import Worker

__all__ = ["ENGINES", "QUICK", "Sizes", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows that decode together, after prompts of `prompt_tokens` random tokens each."""

    model: str = "smollm2"
    rows: tuple[int, ...] = (1, 8, 32)
    prompt_tokens: int = 64
    steps: int = 24
    rounds: int = 3
    seed: int = 0


QUICK = Sizes(rows=(1, 2), prompt_tokens=8, steps=3, rounds=1)


_QUIET = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Decode the same prompts with the same bf16 weights in two processes, in turn."""
    samples: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as stack:
        workers = {}
        for name in ENGINES:
            progress(f"loading {name}")
            worker = Worker("-m", "benchmarks.decode", name, sizes.model, extra=_QUIET)
            workers[name] = stack.enter_context(worker)
            workers[name].read()
        for number in range(sizes.rounds):
            for rows in sizes.rows:
                for name, worker in workers.items():
                    progress(f"round {number + 1} of {sizes.rounds}: {name}, {rows} rows")
                    prompts = _prompts(sizes, rows, seed=sizes.seed * 1000 + number)
                    counted, seconds = worker.ask(prompts=prompts, steps=sizes.steps)
                    if counted != sizes.steps * rows:
                        raise RuntimeError(f"{name} decoded {counted} tokens, not {sizes.steps}")
                    samples.setdefault((name, rows), []).append(seconds / sizes.steps)
    return Outcome(name="decode", sizes=asdict(sizes), figures=_figures(samples, sizes))


def _figures(samples: dict[tuple[str, int], list[float]], sizes: Sizes) -> list[Figure]:
    medians = {key: median(values) for key, values in samples.items()}
    times = [
        Figure(name=f"{name}, {rows} rows: step", value=medians[name, rows] * 1e3, unit="ms CPU")
        for rows in sizes.rows
        for name in ENGINES
    ]
    ratios = [
        Figure(
            name=f"server_reference / transformers, {rows} rows",
            value=medians["server_reference", rows] / medians["transformers", rows],
            unit="ratio",
        )
        for rows in sizes.rows
    ]
    return [replace(one, runs=sizes.rounds) for one in [*ratios, *times]]


def _prompts(sizes: Sizes, rows: int, *, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    # Past the control tokens, which have the lowest ids.
    return [[draw.randrange(100, 200) for _ in range(sizes.prompt_tokens)] for _ in range(rows)]


Decoding = Callable[..., tuple[int, float]]
"""Called with `prompts` and `steps`; tokens that were decoded, and CPU seconds."""


def _engine(model: str) -> Decoding:
    """Our engine, without its process."""
    from server_reference.checkpoints.load import load
    from server_reference.config import EngineConfig
    from server_reference.core import GenerateRequest, SamplingParams
    from server_reference.engine.engine import Engine

    config = EngineConfig(model=model, max_num_seqs=64, max_step_tokens=4096)
    loaded = load(config)
    loaded = replace(loaded, tokenizer=_Endless(loaded.tokenizer))
    calls = 0

    def decode(prompts: list[list[int]], steps: int) -> tuple[int, float]:
        nonlocal calls
        calls += 1
        engine = Engine(loaded, config)
        params = SamplingParams(max_tokens=steps + 1, temperature=0)
        for number, prompt in enumerate(prompts):
            engine.add(
                GenerateRequest(
                    id=f"{calls}-{number}", tenant="t", prompt_token_ids=prompt, params=params
                )
            )
        while len(engine.step()) < len(prompts):  # until all have their first token
            pass
        begun, tokens = process_time(), 0
        while engine.has_work:
            tokens += len(engine.step())
        return tokens, process_time() - begun

    return decode


class _Endless:
    """A tokenizer none of whose tokens ends a text, so that every row decodes to the end."""

    eos_token_ids: frozenset[int] = frozenset()

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def _transformers(model: str) -> Decoding:
    """The peer, on the same file's weights."""
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    from server_reference.checkpoints.registry import resolve

    gguf = resolve(model).gguf
    assert gguf is not None
    peer: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    peer.eval()
    kinds = {(type(one).__name__, one.weight.dtype) for one in peer.modules() if _is_linear(one)}
    if kinds != {("Linear", torch.bfloat16)}:
        raise RuntimeError(f"transformers did not load plain bf16 weights, but {kinds}")

    def generated(prompts: list[list[int]], tokens: int) -> tuple[int, float]:
        ids = torch.tensor(prompts)
        begun = process_time()
        with torch.inference_mode():
            output = peer.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=tokens,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        return output.numel() - ids.numel(), process_time() - begun

    def decode(prompts: list[list[int]], steps: int) -> tuple[int, float]:
        """With the first token, which the prompt's own step brings, and without."""
        first, prefill = generated(prompts, 1)
        tokens, seconds = generated(prompts, steps + 1)
        return tokens - first, seconds - prefill

    return decode


def _is_linear(module: Any) -> bool:
    return "Linear" in type(module).__name__


ENGINES: dict[str, Callable[[str], Decoding]] = {
    "server_reference": _engine,
    "transformers": _transformers,
}


def _serve_decoding(name: str, model: str) -> None:
    import torch

    torch.set_num_threads(1)
    decode = ENGINES[name](model)
    print("ready", flush=True)
    answer(decode)


if __name__ == "__main__":
    _serve_decoding(*sys.argv[1:])
