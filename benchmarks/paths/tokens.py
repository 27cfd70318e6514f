"""Paths through `smartclient.tokens`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from smartclient.tokens import count, counting
from smartclient.tokens.counting import Tokenizers

__all__ = ["count_chat"]

_TEXTS = Path(counting.__file__).parent / "same_text.json"
_TURNS, _LENGTH = 200, 500  # a chat of 100 KB


def count_chat() -> Callable[[], object]:
    """None of it has been counted before: the tables of each step are new."""
    languages = list(json.loads(_TEXTS.read_text()).values())
    text = " ".join(languages * (1 + _TURNS * _LENGTH // sum(map(len, languages))))
    turns = [text[at : at + _LENGTH] for at in range(0, _TURNS * _LENGTH, _LENGTH)]
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": turn} for n, turn in enumerate(turns)]
    vocabularies = Tokenizers().vocabularies

    def step() -> None:
        counted = count({"messages": messages}, model="gpt-4o", tokenizers=Tokenizers(vocabularies))
        assert counted.source == "tokenizer"

    return step
