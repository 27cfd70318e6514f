"""Which vocabulary a model counts with, and how sure that is, from the model's name alone.

tiktoken's own map raises `KeyError` for `gpt-6…`, `codex-mini-latest`, `openai/…` and for
Azure's names, and takes `ft:gpt-4.1-mini…` for a GPT-4 (tiktoken 0.14.0, `model.py`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

__all__ = [
    "CLAUDE_GROWTH",
    "Encoding",
    "Tokenizing",
    "bare_name",
    "claude_version",
    "has_new_tokenizer",
    "tokenizing",
]

Encoding = Literal["o200k_base", "o200k_harmony", "cl100k_base"]


class Tokenizing(Struct, frozen=True, kw_only=True):
    """How the text of a model is counted.

    Attributes:
        encoding: The vocabulary, or the one that the estimate starts from.
        is_own: Whether it is the model's own, so that text counts exactly.
        prose: Tokens of the model for each token of `encoding`, in running text.
        code: The same in code, JSON and tables.
        foreign: The same in scripts other than Latin.
        error: How far the truth may lie from that, as a share: 90 % of texts within.
    """

    encoding: Encoding = "o200k_base"
    is_own: bool = False
    prose: float = 1.0
    code: float = 1.0
    foreign: float = 1.0
    error: float = 0.0


CLAUDE_GROWTH = 1.3
"""Tokens of Claude 4.7 and later for each of 4.6: platform.claude.com, "Token counting"."""

_OWN: tuple[tuple[re.Pattern[str], Encoding], ...] = (
    (re.compile(r"gpt-oss"), "o200k_harmony"),
    (re.compile(r"(chat)?gpt-(4o|4\.1|4\.5|5)|o[1-9](-|$)|chat-latest"), "o200k_base"),
    (re.compile(r"gpt-(audio|realtime|image)|codex-mini|computer-use"), "o200k_base"),
    (re.compile(r"gpt-4(-|$)|gpt-3\.?5|text-embedding-(3|ada-002)"), "cl100k_base"),
)
_LIKELY = re.compile(r"gpt-\d|o\d")  # of OpenAI, newer than the vocabularies we know
_CLAUDE = re.compile(r"claude-(?:(?P<family>[a-z]+)-)?(?P<major>\d)(?:[-.](?P<minor>\d)(?!\d))?")
_REGIONS = re.compile(r"^(?:[a-z]{2,6}\.)?(?:anthropic|openai)\.")  # Bedrock's prefixes

_CLAUDE_OLD = Tokenizing(prose=1.2, code=1.3, foreign=1.5, error=0.2)
_CLAUDE_NEW = Tokenizing(
    prose=1.2 * CLAUDE_GROWTH, code=1.3 * CLAUDE_GROWTH, foreign=1.5 * CLAUDE_GROWTH, error=0.25
)
_GUESSED = Tokenizing(error=0.1)
_UNKNOWN = Tokenizing(prose=1.1, code=1.15, foreign=1.3, error=0.35)


@lru_cache(maxsize=256)
def bare_name(model: str) -> str:
    """`model` in lower case, without `ft:`, a provider's or a region's prefix, or a suffix."""
    name = model.strip().lower().rpartition("/")[2].removeprefix("ft:").split(":")[0]
    return _REGIONS.sub("", name)


@lru_cache(maxsize=256)
def tokenizing(model: str) -> Tokenizing:
    """How the text of `model` is counted; an unknown name gets a wide estimate."""
    name = bare_name(model)
    for pattern, encoding in _OWN:
        if pattern.match(name):
            return Tokenizing(encoding=encoding, is_own=True)
    if "claude" in name:
        return _CLAUDE_NEW if has_new_tokenizer(name) else _CLAUDE_OLD
    return _GUESSED if _LIKELY.match(name) else _UNKNOWN


def claude_version(name: str) -> tuple[str, float] | None:
    """Family and version of a Claude, such as `("opus", 4.7)`; `None` for what is none."""
    found = _CLAUDE.search(name)
    if found is None:
        return None
    # Before Claude 4 the version stood first: `claude-3-5-sonnet`.
    family = found["family"] or name[found.end() :].strip("-").partition("-")[0]
    return family, float(f"{found['major']}.{found['minor'] or 0}")


def has_new_tokenizer(name: str) -> bool:
    """Whether a Claude splits text in the finer way that began with Opus 4.7."""
    version = claude_version(name)
    if version is None:
        return True  # a name without a version is one to come
    family, number = version
    return number >= (4.7 if family == "opus" else 5.0)
