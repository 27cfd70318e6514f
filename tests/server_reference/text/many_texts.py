"""Texts of many kinds for tokenizers: every script and category, runs, code, odd characters."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

__all__ = ["many_texts"]

_WORDS = (
    "the of and I'm don't it's we'll they've you'd he's I'D DON'T x's hello world Paris token "
    "naïve café über straße Ελλάδα Москва день 東京 漢字 かな カナ 한국어 العربية עברית हिन्दी ไทย "
    "tiếng Việt İstanbul ǅ ﬁ Ⅷ ² ½ ٣ १२ 3.14 1,000 0x1F 2026-11-30 user@example.com http://x.y/z?q=1#a"
).split(" ")
_CODE = (
    "def f(x):\n    return x ** 2\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i]; }\n",
    '{"key": [1, 2.5e-3, null, true], "s": "a\\nb"}',
    "SELECT * FROM t WHERE a<>'b' -- c\r\n",
    '<div class="a">&nbsp;</div>\n\n\n',
    "\tif x != y:\n\t\tpass\n",
    "$ ls -la | grep '^d' >> out.txt && echo $?",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><s></s>[INST]",
)
_EMOJI = "😀 👍🏽 👨‍👩‍👧‍👦 🇫🇷 ❤️ ☺ 🏳️‍🌈 1️⃣ 🫠".split(" ")
_SPACES = (
    " \t\n\r\v\f\x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"
)
_MARKS = "'’`´\"“”«»-–—…·•_^~|\\/@#%&*()[]{}<>+=.,;:!?"


@cache
def _by_category() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for point in range(sys.maxunicode + 1):
        letter = chr(point)
        category = unicodedata.category(letter)
        if category not in ("Cs", "Cn", "Co"):
            found.setdefault(category, []).append(letter)
    return found


def _any_letters(chance: random.Random) -> str:
    categories = sorted(_by_category())
    picked = [chance.choice(_by_category()[chance.choice(categories)]) for _ in range(12)]
    return "".join(picked)


def _one_category(chance: random.Random) -> str:
    letters = _by_category()[chance.choice(sorted(_by_category()))]
    return chance.choice(["", " ", "a"]) + "".join(chance.choices(letters, k=chance.randint(1, 9)))


def _words(chance: random.Random) -> str:
    return chance.choice([" ", " ", "  ", "", "\n", ", "]).join(
        chance.choices(_WORDS, k=chance.randint(1, 12))
    )


def _runs(chance: random.Random) -> str:
    pool = _SPACES + _MARKS + "aA0é漢\x00\x1f\x7f"
    return "".join(chance.choice(pool) * chance.randint(1, 9) for _ in range(chance.randint(1, 8)))


def _mixed(chance: random.Random) -> str:
    makers = (_words, _runs, _digits, _emoji, _one_category, lambda c: c.choice(_CODE))
    return "".join(chance.choice(makers)(chance) for _ in range(chance.randint(2, 5)))


def _digits(chance: random.Random) -> str:
    return chance.choice(["", " ", "  ", "a", "-"]).join(
        str(chance.randrange(10 ** chance.randint(1, 12))) for _ in range(chance.randint(1, 5))
    )


def _emoji(chance: random.Random) -> str:
    return chance.choice(["", " "]).join(chance.choices(_EMOJI, k=chance.randint(1, 6)))


def _points(chance: random.Random) -> str:
    points = [chance.randrange(1, sys.maxunicode + 1) for _ in range(chance.randint(1, 8))]
    return "".join(chr(point) for point in points if not 0xD800 <= point <= 0xDFFF)


_MAKERS: tuple[Callable[[random.Random], str], ...] = (
    _any_letters, _one_category, _words, _runs, _mixed, _digits, _emoji, _points,
)  # fmt: skip


def many_texts(count: int, *, seed: int = 0) -> Iterator[str]:
    """So many texts, of all kinds in turn; without lone surrogates and without NUL first."""
    chance = random.Random(seed)
    for at in range(count):
        yield _MAKERS[at % len(_MAKERS)](chance)
