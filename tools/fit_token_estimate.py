"""Fit the weights of `smartclient.tokens.estimate` to o200k; prints them and how well they do.

Needs toktok-rs. Weights that would be negative are held at nothing.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
from toktok import batch_count  # type: ignore[import-untyped]  # toktok-rs ships no types

from smartclient.tokens.estimate import FEATURES, features

__all__ = ["corpus", "fit", "main"]

ROOT = Path(__file__).resolve().parent.parent
SAME_TEXT = ROOT / "src" / "smartclient" / "tokens" / "same_text.json"
_PIECE = 2000  # characters of our own pages and code
_PRIOR = {  # where the corpus is silent: per character
    "control": 1.0,
    "symbol": 1.0,
    "rare": 1.5,
    "emoji": 1.5,
}


def corpus() -> list[str]:
    """The same text in many languages, at several lengths, and pieces of this repository."""
    same = json.loads(SAME_TEXT.read_text())
    texts = [text[:length] for text in same.values() for length in (100, 300, 10_000)]
    paths = [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "src").rglob("*.py"))]
    texts += [path.read_text()[:_PIECE] for path in paths]
    return [text for text in texts if text]


def fit(texts: list[str]) -> dict[str, float]:
    """Weights that are least wrong in proportion, each at least nothing."""
    counts = np.array(batch_count(texts, "o200k_base", 1), dtype=float)
    rows = np.array([[features(text)[name] for name in FEATURES] for text in texts], dtype=float)
    rows /= counts[:, None]
    languages = 3 * len(json.loads(SAME_TEXT.read_text()))
    weight = np.ones(len(texts))
    weight[:languages] = 3.0  # a language weighs as much as several pages
    prior = np.array([_PRIOR.get(name, 0.0) for name in FEATURES])
    held = np.zeros(len(FEATURES), dtype=bool)
    while True:
        some = rows[:, ~held]
        left = some.T @ (some * weight[:, None]) + 0.003 * np.eye(some.shape[1])
        found = np.linalg.solve(left, some.T @ weight + 0.003 * prior[~held])
        if (found >= 0).all():
            break
        held[np.flatnonzero(~held)[found < 0]] = True
    weights = np.zeros(len(FEATURES))
    weights[~held] = found
    return {name: round(float(value), 4) for name, value in zip(FEATURES, weights, strict=True)}


def main() -> int:
    texts = corpus()
    weights = fit(texts)
    print(json.dumps(weights, indent=4))
    counts = batch_count(texts, "o200k_base", 1)
    wrong = sorted(
        abs(math.log(sum(weights[n] * v for n, v in features(text).items()) / count))
        for text, count in zip(texts, counts, strict=True)
    )
    for share in (0.5, 0.9, 0.95, 1.0):
        print(f"{share:.0%} within {wrong[min(len(wrong) - 1, int(share * len(wrong)))]:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
