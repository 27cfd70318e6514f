"""What a count of tokens is: three quantiles, where they come from, and what they cannot see."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["Kind", "Source", "TokenCount"]

Source = Literal["exact_endpoint", "tokenizer", "calibrated", "heuristic"]
Kind = Literal["text", "code", "other_script", "tools", "images", "files"]


class TokenCount(Struct, frozen=True):
    """The input tokens of a request, before it is sent.

    Attributes:
        p05: As few as it may be: for gates such as a cache's minimum.
        p50: The best single number, to show.
        p95: As many as it may be: what a budget reserves.
        source: `exact_endpoint`, told by the provider; `tokenizer`, counted with the model's
            own vocabulary; `calibrated`, corrected by what earlier calls used; `heuristic`,
            estimated.
        kind: What the request is made of, which decides what earlier calls tell about it.
        estimate: The number before any calibration; `p50` where there was none.
        unknown: JSON paths of the parts that nobody can count from here, such as an image
            behind a URL; the quantiles hold a guess for each.
    """

    p05: int
    p50: int
    p95: int
    source: Source
    kind: Kind = "text"
    estimate: int = 0
    unknown: tuple[str, ...] = ()
