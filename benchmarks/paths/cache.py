"""Paths through `smartclient.prompt_cache`: the hints of a chat, none of them sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smartclient import catalog
from smartclient.prompt_cache import CacheHints
from smartclient.prompt_cache.hinting import Hinter

__all__ = ["place_1mb", "place_10kb", "place_100kb"]

_TEXT = ("What a model is told, and what it says, in a kilobyte. " * 20)[:1000]
_MODEL = "claude-opus-5"


def place_10kb() -> Callable[[], object]:
    return _place(10)


def place_100kb() -> Callable[[], object]:
    return _place(100)


def place_1mb() -> Callable[[], object]:
    return _place(1000)


def _place(kilobytes: int) -> Callable[[], object]:
    """Each step reads the prompt, finds its lane, places its marks and writes them.

    The lane has had the same prompt before, so that every step does the same.
    """
    facts, hinter = catalog.model(_MODEL), Hinter(CacheHints(mode="full"))
    roles, now = ("user", "assistant"), 0.0
    said = [{"role": roles[n % 2], "content": f"{n} {_TEXT}"} for n in range(kilobytes - 1)]
    payload: dict[str, Any] = {"model": _MODEL, "system": _TEXT, "messages": said}

    def step() -> None:
        nonlocal now
        hinted = hinter.look(
            payload,
            endpoint="anthropic.messages",
            model=_MODEL,
            scope="somebody",
            headers=(),
            facts=facts,
            now=now,
        )
        assert hinted is not None
        assert hinted.plan.marks
        hinted.begun(now)
        now += 10.0

    return step
