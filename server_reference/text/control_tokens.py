"""The tokens that steer a model, and how text that only looks like one is kept from being one."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["ControlTokens"]


class ControlTokens:
    """A model's control tokens by their text, `<|im_end|>` and the like."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = dict(ids)
        # Longest first, so that no token hides behind one that is its prefix.
        texts = sorted(self.ids, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, texts)) or r"(?!)"
        self._split = re.compile(f"({alternatives})")
        self._starts = re.compile(f"(?={alternatives})")
        self._prefixes = {text[:end] for text in texts for end in range(1, len(text))}
        self._longest = len(texts[0]) if texts else 0

    def split(self, text: str) -> list[str | int]:
        """Cut `text` into control tokens (their ids) and what stands between them."""
        pieces = self._split.split(text)
        return [self.ids[piece] if at % 2 else piece for at, piece in enumerate(pieces) if piece]

    def guard(self, text: str, mark: str) -> str:
        """Put `mark` into every control token in `text`, so that `split` finds none there.

        A beginning of one at the end of `text` is marked too: what follows may complete it.
        Any other text comes back as it is.
        """
        starts = [match.start() for match in self._starts.finditer(text)]
        visible = len(text.rstrip())  # a template may strip what is behind
        tails = range(max(0, visible - self._longest), visible)
        starts += [at for at in tails if text[at:visible] in self._prefixes]
        pieces: list[str] = []
        done = 0
        for at in sorted(set(starts)):
            pieces += (text[done : at + 1], mark)
            done = at + 1
        return "".join([*pieces, text[done:]])
