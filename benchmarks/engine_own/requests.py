"""What single requests see: a cached prefix, a long prompt beside them, sampling, speculation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any, TypeAlias

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

    Returns:
        The gaps from then on; those of the same outputs without a prompt; CPU seconds and
        steps until the prompt's first token.
    """
    sizes = {"rows": rows, "output": output, "after": after, "seed": seed}
    gaps, seconds, steps = _gaps(model, prompt_tokens=prompt_tokens, **sizes)
    alone, _, _ = _gaps(model, prompt_tokens=0, **sizes)
    return {"gaps": gaps, "alone": alone, "ttft": seconds, "steps": steps}


def _gaps(
    model: Any, *, rows: int, output: int, prompt_tokens: int, after: int, seed: int
) -> tuple[list[float], float, int]:
    draw = random.Random(seed)
    blocks = (rows * (64 + output) + prompt_tokens) // 16 + 4 * rows
    running = real(model, EngineConfig(max_num_seqs=rows + 1, num_blocks=blocks))
    others = {running.add(_prompt(draw, 64), output) for _ in range(rows)}
    running.until_decoding(rows)
    for _ in range(after):
        running.step()
    prompt = running.add(_prompt(draw, prompt_tokens), 1) if prompt_tokens else None
    gaps, came, ttft, steps = [], process_time(), 0.0, 0
    latest = came
    while running.engine.has_work:
        got = {update.id for update in running.step()}
        now = process_time()
        if others & got:
            gaps.append(now - latest)
            latest = now
        if not ttft:
            steps += 1
        if prompt in got:
            ttft = now - came
    return gaps, ttft, steps


def sampling(
    model: Any, *, rows: int, steps: int, rounds: int, seed: int
) -> dict[str, list[float]]:
    """CPU seconds of a step of `rows` sequences, greedy and drawn, in turn."""
    draw = random.Random(seed)
    running = real(model, EngineConfig(max_num_seqs=rows, prefill_stretch=None))
    times: dict[str, list[float]] = {"greedy": [], "sampled": []}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("greedy", {}),
        ("sampled", {"temperature": 0.8, "top_p": 0.95}),
    ]
    for number in range(rounds):
        for name, params in kinds if number % 2 else reversed(kinds):
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
    """CPU seconds of outputs with and without drafts, by task.

    In fast numerics a step with drafts may round otherwise than one without, so that the
    outputs may part somewhere; how many did not is counted.
    """
    engines = {
        number: real(model, EngineConfig(max_num_seqs=1, num_draft_tokens=number))
        for number in (0, draft_tokens)
    }
    times: dict[str, list[float]] = {}
    drafts, same = {}, 0
    for task, make in _TASKS.items():
        before = engines[draft_tokens].engine.stats()
        for number in range(rounds):
            prompt, params = make(model, random.Random(seed + number))
            texts = set()
            for count in engines if number % 2 else reversed(engines):
                seconds, text = _output(engines[count], prompt, output, params)
                times.setdefault(f"{task}, {count}", []).append(seconds)
                texts.add(text)
            same += len(texts) == 1
        stats = engines[draft_tokens].engine.stats()
        proposed = stats.draft_tokens_proposed - before.draft_tokens_proposed
        accepted = stats.draft_tokens_accepted - before.draft_tokens_accepted
        drafts[task] = [proposed, accepted]
    assert drafts["nothing repeats"] == [0, 0], drafts
    return {"times": times, "drafts": drafts, "same outputs": same}


_Task: TypeAlias = tuple[list[int], dict[str, Any]]


def _copying(model: Any, draw: random.Random) -> _Task:
    """A list of made-up lines, twice and begun again."""
    names = ["alpha", "delta", "omega", "sigma", "kappa", "gamma"]
    lines = [f"{draw.choice(names)}_{draw.randrange(1000)} = {n}\n" for n in range(12)]
    return list(model.tokenizer.encode("".join(lines) * 2 + "".join(lines[:2]))), {}


def _nothing_repeats(model: Any, draw: random.Random) -> _Task:
    """No token comes twice: the prompt's are all different, and each is barred once it came."""
    prompt = draw.sample(range(100, 200), 64)
    barred = tuple((token, -1000.0) for token in prompt)
    return prompt, {"logit_bias": barred, "presence_penalty": 1000.0}


def _by_chance(model: Any, draw: random.Random) -> _Task:
    """Words at random, and what the model says to that: some pairs come twice, to no end."""
    return _prompt(draw, 64), {"temperature": 1.0, "seed": 7}


_TASKS: dict[str, Callable[[Any, random.Random], _Task]] = {
    "copying": _copying,
    "nothing repeats": _nothing_repeats,
    "repeats by chance": _by_chance,
}


def _output(
    running: Running, prompt: list[int], output: int, params: dict[str, Any]
) -> tuple[float, str]:
    """CPU seconds from the first token to the last, and the text."""
    running.add(prompt, output, **params)
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
