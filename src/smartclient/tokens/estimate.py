"""About how many tokens a text is, from kinds of bytes: what is left where no vocabulary is.

The weights are fitted on the o200k counts of `same_text.json`, beside this file, and of this
repository's own pages and code, by `python -m tools.fit_token_estimate`.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ERROR", "FEATURES", "WEIGHTS", "estimate", "features", "mixture"]

ERROR = 0.2
"""90 % of ordinary texts of some length lie within this share of their estimate."""

_CLASSES: tuple[tuple[str, Callable[[int], bool]], ...] = (
    ("lower", lambda byte: 0x61 <= byte <= 0x7A),
    ("upper", lambda byte: 0x41 <= byte <= 0x5A),
    ("digit", lambda byte: 0x30 <= byte <= 0x39),
    ("newline", lambda byte: byte == 0x0A),
    ("space", lambda byte: byte in b" \t\r\x0b\x0c"),
    ("punctuation", lambda byte: byte < 0x7F and byte > 0x20),
    ("control", lambda byte: byte < 0x80),
    ("inside", lambda byte: byte < 0xC0),  # the second byte of a character, and later ones
    ("latin", lambda byte: byte < 0xCD),
    ("cyrillic", lambda byte: byte < 0xD6),  # and Greek, Armenian
    ("arabic", lambda byte: byte < 0xE0),  # and Hebrew
    ("indic", lambda byte: byte < 0xE2),  # and Thai, Georgian
    ("symbol", lambda byte: byte == 0xE2),
    ("kana", lambda byte: byte == 0xE3),
    ("han", lambda byte: byte < 0xEA),
    ("hangul", lambda byte: byte < 0xEE),
    ("rare", lambda byte: byte < 0xF0),
    ("emoji", lambda byte: True),
)
_PLAIN = frozenset({"upper", "digit", "newline", "space", "punctuation", "control"})
_TABLE = bytes(
    next(number for number, (_, is_it) in enumerate(_CLASSES) if is_it(byte)) for byte in range(256)
)
_NUMBERS = tuple((name, number) for number, (name, _) in enumerate(_CLASSES) if name != "inside")

_ASCII = tuple(pair for pair in _NUMBERS if pair[0] in _PLAIN)
_PIECE = 65_536  # characters

FEATURES = ("word", "indent", *(name for name, _ in _NUMBERS))

WEIGHTS = {
    "word": 0.5625,
    "indent": 0.8548,
    "lower": 0.0995,
    "upper": 0.3154,
    "digit": 0.8884,
    "newline": 0.0575,
    "space": 0.0773,
    "punctuation": 0.5612,
    "control": 1.0,
    "latin": 1.5104,
    "cyrillic": 0.2251,
    "arabic": 0.2683,
    "indic": 0.2342,
    "symbol": 0.2422,
    "kana": 0.8037,
    "han": 0.8136,
    "hangul": 0.6151,
    "rare": 1.5663,
    "emoji": 1.5,
}
"""Tokens for each: words and line breaks with an indent, and characters of each kind."""


def features(text: str) -> dict[str, int]:
    """Words, indented lines, and characters of each kind, all counted at the speed of C."""
    found = dict.fromkeys(FEATURES, 0)
    for start in range(0, len(text), _PIECE):  # so that a huge text is not copied whole
        _add(found, text[start : start + _PIECE])
    return found


def _add(found: dict[str, int], text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    kinds = data.translate(_TABLE)
    found["word"] += len(text.split())
    found["indent"] += data.count(b"\n ")
    rest = len(data)
    for name, number in _ASCII if text.isascii() else _NUMBERS:
        here = kinds.count(number)
        found[name] += here
        rest -= here
    if text.isascii():
        found["lower"] += rest  # the commonest is what the others leave


def estimate(text: str) -> float:
    """About how many tokens of o200k `text` is."""
    return _weighed(features(text))


def mixture(text: str) -> tuple[float, float, float]:
    """The estimate, and which shares of the text are code and scripts other than Latin."""
    found = features(text)
    letters = found["lower"] + found["upper"] + found["latin"]
    foreign = sum(found[name] for name in _FOREIGN)
    marks = found["punctuation"] + found["digit"]
    total = letters + foreign + marks or 1
    # Prose has one mark for twenty letters, code one for four.
    code = min(1.0, max(0.0, (marks / total - 0.08) / 0.12))
    return _weighed(found), code * (1.0 - foreign / total), foreign / total


_FOREIGN = ("cyrillic", "arabic", "indic", "kana", "han", "hangul", "emoji")


def _weighed(found: dict[str, int]) -> float:
    total = sum(WEIGHTS[name] * number for name, number in found.items())
    return max(total, 1.0 if any(found.values()) else 0.0)
