"""The same text in ten languages, and code: how many tokens each is, for whom.

Run it with `python -m examples.same_text_in_ten_languages`. It uses no network. A column
that says `heuristic` is an estimate, with the share by which the truth may lie above it.
"""

from __future__ import annotations

import json
from pathlib import Path

from smartclient.tokens import TokenCount, count

__all__ = ["main"]

TEXTS = Path(__file__).resolve().parent.parent / "tests" / "data" / "same_text.json"
MODELS = ("gpt-4", "gpt-5.1", "claude-opus-4-6", "claude-opus-5")


def main() -> int:
    texts: dict[str, str] = json.loads(TEXTS.read_text(encoding="utf-8"))
    print(f"{'':<12}{'characters':>11}" + "".join(f"{model:>17}" for model in MODELS))
    for language, text in texts.items():
        counts = [count(text, model=model) for model in MODELS]
        print(f"{language:<12}{len(text):>11}" + "".join(f"{_shown(one):>17}" for one in counts))
    sources = [count("Hello", model=model).source for model in MODELS]
    print(f"{'source':<23}" + "".join(f"{source:>17}" for source in sources))
    return 0


def _shown(counted: TokenCount) -> str:
    above = counted.p95 / counted.p50 - 1.0
    return f"{counted.p50} +{above:.0%}" if above > 0.005 else str(counted.p50)


if __name__ == "__main__":
    raise SystemExit(main())
