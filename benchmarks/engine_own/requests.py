"""What single requests see: a cached prefix, a long prompt beside them, sampling, speculation."""

from __future__ import annotations

import random
from collections.abc import Iterator
from time import process_time
from typing import Any

from server_reference.config import EngineConfig

from .engines import Running, real

__all__ = ["arrival", "prefix", "sampling", "speculation"]


def prefix(
    model: Any, *, prefix_tokens: int, suffix_tokens: int, requests: int, colds: int, seed: int
) -> dict[str, list[float]]:
    """CPU seconds to the first token: of prompts that share a prefix, and of such that do not."""
    draw = random.Random(seed)
    length = prefix_tokens + suffix_tokens
    blocks = (colds + 2) * (length // 16 + 2) + requests * (suffix_tokens // 16 + 2)
    running = real(model, EngineConfig(max_num_seqs=1, num_blocks=blocks))
    cold = [_ttft(running, _prompt(draw, length)) for _ in range(colds)]
    shared = _prompt(draw, prefix_tokens)
    _ttft(running, shared + _prompt(draw, suffix_tokens))
    warm = [_ttft(running, shared + _prompt(draw, suffix_tokens)) for _ in range(requests)]
    return {"cold": cold, "warm": warm}


def _ttft(running: Running, prompt: list[int]) -> float:
    begun = process_time()
    running.add(prompt, 1)
    while not running.step():
        pass
    return process_time() - begun


def arrival(
    model: Any, *, rows: int, output: int, prompt_tokens: int, after: int, seed: int
) -> dict[str, Any]:
    """Gaps between the tokens of `rows` sequences, during whose outputs a long prompt comes.

    Args:
        output: Tokens of each output.
        after: Tokens of each that are there when the prompt comes.
    """
    draw = random.Random(seed)
    blocks = (rows * (64 + output) + prompt_tokens) // 16 + 4 * rows
    running = real(model, EngineConfig(max_num_seqs=rows + 1, num_blocks=blocks))
    others = {running.add(_prompt(draw, 64), output + rows) for _ in range(rows)}
    running.until_decoding(rows)
    gaps, made, waited, first = [], 0, 0.0, None
    prompt = None
    while made < output or first is None:
        if made == after:
            prompt = running.add(_prompt(draw, prompt_tokens), 1)
        begun = process_time()
        got = {update.id for update in running.step()}
        taken = process_time() - begun
        if others & got:
            gaps.append(taken + waited)
            waited, made = 0.0, made + 1
        else:
            waited += taken
        if prompt in got:
            first = made
    running.drain()
    return {"gaps": gaps, "before": gaps[:after], "steps_of_the_prompt": first - after}


def sampling(
    model: Any, *, rows: int, steps: int, rounds: int, seed: int
) -> dict[str, list[float]]:
    """CPU seconds of a step of `rows` sequences, greedy and drawn, in turn."""
    draw = random.Random(seed)
    running = real(model, EngineConfig(max_num_seqs=rows))
    times: dict[str, list[float]] = {"greedy": [], "sampled": []}
    drawn = {"temperature": 0.8, "top_p": 0.95}
    for number in range(rounds):
        for name, params in (("greedy", {}), ("sampled", drawn)):
            for row in range(rows):
                seeded = {"seed": number * rows + row} if params else {}
                running.add(_prompt(draw, 64), steps + 2 * rows, **params, **seeded)
            running.until_decoding(rows)
            times[name] += list(_steps(running, steps))
            running.drain()
    return times


def _steps(running: Running, steps: int) -> Iterator[float]:
    for _ in range(steps):
        begun = process_time()
        running.step()
        yield process_time() - begun


def speculation(
    model: Any, *, draft_tokens: int, output: int, rounds: int, seed: int
) -> dict[str, Any]:
    """CPU seconds of an output with and without drafts, where the prompt repeats, or nothing.

    In fast numerics a step with drafts may round otherwise than one without, so that the
    outputs may part somewhere; how many did not is counted.
    """
    engines = {
        number: real(model, EngineConfig(max_num_seqs=1, num_draft_tokens=number))
        for number in (0, draft_tokens)
    }
    times: dict[str, list[float]] = {}
    accepted, same = {}, 0
    for task in ("copying", "nothing repeats"):
        for number in range(rounds):
            texts = []
            for drafts, running in engines.items():
                seconds, text = _output(running, _task(model, task, seed + number), output, task)
                times.setdefault(f"{task}, {drafts}", []).append(seconds)
                texts.append(text)
            same += len(set(texts)) == 1
        stats = engines[draft_tokens].engine.stats()
        accepted[task] = [stats.draft_tokens_proposed, stats.draft_tokens_accepted]
    return {"times": times, "drafts": accepted, "same outputs": same}


def _task(model: Any, task: str, seed: int) -> list[int]:
    """A list of made-up lines, twice and begun again; or a prompt of words at random."""
    draw = random.Random(seed)
    if task == "copying":
        names = ["alpha", "delta", "omega", "sigma", "kappa", "gamma"]
        lines = [f"{draw.choice(names)}_{draw.randrange(1000)} = {n}\n" for n in range(12)]
        return list(model.tokenizer.encode("".join(lines) * 2 + "".join(lines[:2])))
    return _prompt(draw, 64)


def _output(running: Running, prompt: list[int], output: int, task: str) -> tuple[float, str]:
    """CPU seconds from the first token to the last, and the text."""
    drawn = {} if task == "copying" else {"temperature": 1.0, "seed": 7}
    running.add(prompt, output, **drawn)
    text = ""
    begun = None
    while running.engine.has_work:
        for update in running.step():
            text += update.text
            begun = begun or process_time()
    assert begun is not None
    return process_time() - begun, text


def _prompt(draw: random.Random, length: int) -> list[int]:
    return [draw.randrange(100, 200) for _ in range(length)]
