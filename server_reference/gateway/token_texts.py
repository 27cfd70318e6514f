"""Name the tokens whose log-probabilities a caller is told."""

from __future__ import annotations

from collections.abc import Iterable

from ..api.events import Logprob
from ..core import TokenLogprob
from ..text.tokenizer import Tokenizer

__all__ = ["TokenTexts"]


class TokenTexts:
    """The bytes of a model's tokens; a control token, which has none, by its name."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._names = {id: text.encode() for text, id in tokenizer.control_tokens.ids.items()}

    def told(self, logprobs: Iterable[TokenLogprob]) -> tuple[Logprob, ...]:
        """The engine's log-probabilities in the callers' words."""
        return tuple(
            self._told(one.token_id, one.logprob, tuple(self._told(*top) for top in one.top))
            for one in logprobs
        )

    def _told(self, token_id: int, logprob: float, top: tuple[Logprob, ...] = ()) -> Logprob:
        text = self._names.get(token_id) or self._tokenizer.token_bytes(token_id)
        return Logprob(token_id, text, logprob, top)
