"""The automatic cache of OpenAI's models before breakpoints: steps of 128 tokens, machines.

A request goes to a machine by its first 256 tokens and its `prompt_cache_key`; a machine
that gets more than 15 of a kind per minute hands the rest to another, which has seen nothing.
Source: OpenAI API guide, "Prompt caching".
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from .cache_entries import CacheEntries
from .prompt_walk import Prompt, digest

__all__ = ["AutomaticPrefix", "Machines", "automatic_prefix"]

_STEP = 128
_BYTES_PER_TOKEN = 4
_ROUTED_TOKENS = 256
_PER_MINUTE = 15
_MAX_ROUTES = 10_000


class AutomaticPrefix(NamedTuple):
    """A prompt by its steps.

    Attributes:
        keys: Of the prefixes that end after each step.
        text: Of the whole prompt, in UTF-8.
    """

    keys: list[bytes]
    text: bytes
    count: Callable[[str], int]

    @property
    def tokens(self) -> int:
        return self.count(self.text.decode("utf-8", "replace"))

    def cached(self, entries: CacheEntries, now: float, *, at_least: int) -> int:
        """Tokens of the longest prefix that is held, in whole steps; 0 below the minimum."""
        for number in range(len(self.keys), 0, -1):
            if entries.is_live(self.keys[number - 1], now):
                held = self.text[: number * _STEP * _BYTES_PER_TOKEN]
                tokens = self.count(held.decode("utf-8", "ignore")) // _STEP * _STEP
                return tokens if tokens >= at_least else 0
        return 0


def automatic_prefix(
    prompt: Prompt, machine: bytes, count: Callable[[str], int]
) -> AutomaticPrefix:
    """Cut a prompt into steps, as the machine that it goes to sees it."""
    text = _text(prompt)
    step = _STEP * _BYTES_PER_TOKEN
    keys: list[bytes] = []
    key = machine
    for start in range(0, len(text) - step + 1, step):
        key = digest(key, text[start : start + step])
        keys.append(key)
    return AutomaticPrefix(keys, text, count)


class Machines:
    """Which machine a request goes to."""

    def __init__(self) -> None:
        self._recent: OrderedDict[bytes, deque[float]] = OrderedDict()

    def route(self, prompt: Prompt, scope: str, key: str, now: float) -> bytes:
        """The machine's name, and a note that it was chosen."""
        head = _text(prompt)[: _ROUTED_TOKENS * _BYTES_PER_TOKEN]
        route = digest(scope, key, head)
        recent = self._recent.setdefault(route, deque())
        self._recent.move_to_end(route)
        while recent and recent[0] <= now - 60:
            recent.popleft()
        machine = digest(route, str(len(recent) // _PER_MINUTE))
        recent.append(now)
        if len(self._recent) > _MAX_ROUTES:
            self._recent.popitem(last=False)
        return machine


def _text(prompt: Prompt) -> bytes:
    return "".join(block.text for block in prompt.blocks).encode("utf-8", "surrogatepass")
