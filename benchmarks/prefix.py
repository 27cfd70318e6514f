"""How much sooner a conversation's second turn begins, its first being in the prefix cache."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import smartclient

from .figures import Figure, Outcome, Progress, figure
from .processes import Worker

__all__ = ["QUICK", "Sizes", "run"]

_WORDS = (
    "the river and a small town with old houses near water where people work all day for "
    "their own food while children play under trees after school until night comes over"
).split()
_FIRST, _SECOND = "Summarise this in one sentence.", "Now say it again in other words."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The model, how long the first turn's prompt is, and how many conversations there are."""

    model: str = "smollm2"
    prefix_tokens: int = 600
    output_tokens: int = 8
    conversations: int = 7
    seed: int = 0


QUICK = Sizes(model="tiny", prefix_tokens=200, output_tokens=2, conversations=2)


def run(sizes: Sizes, progress: Progress) -> Outcome:
    """Hold conversations of two turns, each on a system prompt of its own."""
    cold, warm, read = [], [], []
    with _serving(sizes.model) as url, smartclient.Client(base_url=url, api_key="none") as client:
        _turn(client, sizes, "Warm up.", [_user("Hello.")])
        for number in range(sizes.conversations):
            progress(f"conversation {number + 1} of {sizes.conversations}")
            system = _system(client, sizes, number)
            turns = [_user(_FIRST)]
            text, report = _turn(client, sizes, system, turns)
            _expect(report, at_least=0, at_most=64)  # the template's own beginning
            cold.append(report.ttft)
            turns += [{"role": "assistant", "content": text or "."}, _user(_SECOND)]
            _, report = _turn(client, sizes, system, turns)
            read.append(_expect(report, at_least=sizes.prefix_tokens - 16))
            warm.append(report.ttft)
    ratio = median(warm) / median(cold)
    figures = [
        Figure(
            name="second turn / cold", value=ratio, unit="ratio", bar=0.35, runs=sizes.conversations
        ),
        figure("TTFT of the first turn, cold", cold, "ms", scale=1e3),
        figure("TTFT of the second turn", warm, "ms", scale=1e3),
    ]
    return Outcome(
        name="prefix", sizes=asdict(sizes), figures=figures, facts={"tokens_read": median(read)}
    )


@contextmanager
def _serving(model: str) -> Iterator[str]:
    """A server in a process of its own, as from the command line."""
    with Worker("-m", "benchmarks.serve", model) as server:
        yield server.read()


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _system(client: smartclient.Client, sizes: Sizes, number: int) -> str:
    """A prompt that no other begins like, as long as the first turn needs it."""
    draw = random.Random(sizes.seed * 1000 + number)
    words: list[str] = []

    def tokens() -> int:
        counted = client.messages.count_tokens(
            model=sizes.model, system=" ".join(words), messages=[_user(_FIRST)]
        )
        return int(counted.input_tokens)

    while (missing := sizes.prefix_tokens - tokens()) > 0:
        # A token is a word or less of one, so this many words less a few never overshoot far.
        words += draw.choices(_WORDS, k=max(1, missing // 8))
    return " ".join(words)


def _turn(
    client: smartclient.Client, sizes: Sizes, system: str, messages: list[dict[str, Any]]
) -> tuple[str, Any]:
    """One streamed turn: its text, and its report."""
    with client.messages.stream(
        model=sizes.model,
        max_tokens=sizes.output_tokens,
        temperature=0,
        system=system,
        messages=messages,
    ) as stream:
        text = stream.get_final_text()
    return text, stream.report


def _expect(report: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Tokens that were read from the cache, which must be as many as the benchmark claims."""
    read = int(report.usage.cache_read)
    if read < at_least or (at_most is not None and read > at_most):
        raise RuntimeError(f"{read} tokens came from the cache, not {at_least} to {at_most}")
    return read
