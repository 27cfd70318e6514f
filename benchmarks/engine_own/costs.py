"""What a step of the real engine costs, by its shape: the clock of all simulations."""

from __future__ import annotations

import random
from time import process_time
from typing import Any

from server_reference.config import EngineConfig

from .engines import Running, real

__all__ = ["measure"]

_SHORT, _STEPS = 16, 5
_FEW = 4


def measure(model: Any, *, rows: list[int], chunks: list[int], long: int, seed: int) -> Any:
    """The fields of a `StepCost`.

    Args:
        rows: Sequences that decode at once.
        chunks: Tokens of a prompt in one step.
        long: Length of a context beside which a short one is nothing.
    """
    draw = random.Random(seed)
    widest = max(chunks)
    config = EngineConfig(
        max_num_seqs=max(rows),
        max_step_tokens=max(widest, 2 * max(rows)),
        max_prefill_share=widest,
        prefill_stretch=None,
        num_blocks=max(rows) * 8 + 2 * _FEW * long // 16,
        prefix_caching=False,
    )
    running = real(model, config)
    tokens, seconds = [], []
    for count in rows:
        tokens.append(count)
        seconds.append(_decode(running, draw, count, _SHORT))
    for count in chunks:
        tokens.append(count)
        seconds.append(_prefill(running, draw, count)[0])
    few = min(_FEW, max(rows))
    short = _decode(running, draw, few, _SHORT)
    per_context = (_decode(running, draw, few, long) - short) / (few * (long - _SHORT))
    first, last = _prefill(running, draw, widest * max(2, long // widest))
    per_pair = (last - first) / (widest * max(1, long - widest))
    return {
        "tokens": tokens,
        "seconds": seconds,
        "per_context": max(0.0, per_context),
        "per_pair": max(0.0, per_pair),
    }


def _prompt(draw: random.Random, length: int) -> list[int]:
    return [draw.randrange(100, 200) for _ in range(length)]


def _timed(running: Running) -> float:
    begun = process_time()
    running.step()
    return process_time() - begun


def _decode(running: Running, draw: random.Random, rows: int, context: int) -> float:
    """Seconds of a step in which `rows` sequences decode."""
    # The first one still runs when the last one's prompt has been computed.
    output = _STEPS + 3 + rows + rows * (context // 16)
    for _ in range(rows):
        running.add(_prompt(draw, context), output)
    running.until_decoding(rows)
    taken = min(_timed(running) for _ in range(_STEPS))
    running.drain()
    return taken


def _prefill(running: Running, draw: random.Random, length: int) -> tuple[float, float]:
    """Seconds of a prompt's first and last step, of two prompts the cheaper one each."""
    firsts, lasts = [], []
    for _ in range(2):
        running.add(_prompt(draw, length), 1)
        times = []
        while running.engine.has_work:
            times.append(_timed(running))
        firsts.append(times[0])
        lasts.append(times[-1])
    return min(firsts), min(lasts)
