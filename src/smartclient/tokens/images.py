"""How many tokens an image is, by its size and the model's rule.

Source: OpenAI, "Images and vision", calculating costs; Anthropic, "Vision"; tables of litellm
1.110.2 for the multipliers of models that the guide does not list. Dated November 2026.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import ceil, sqrt

from msgspec import Struct

from .encodings import claude_version, has_new_tokenizer
from .image_sizes import base64_of, image_size

__all__ = ["Guess", "ImageRule", "image_rule", "image_tokens"]

Guess = tuple[float, float, float]
"""As few as it may be, the best single number, as many as it may be."""


class ImageRule(Struct, frozen=True, kw_only=True):
    """How a family of models counts images.

    Attributes:
        base: Tokens of any image, and of one in low detail.
        tile: Tokens of each tile of 512 pixels; 0 where patches are counted.
        patch: Pixels along a patch; 0 where tiles are counted.
        factor: Tokens for each patch.
        cap: Most patches that an image is scaled down to.
        edge: Longest edge that it is scaled down to, in pixels; 0 where none is told.
        is_told: Whether the provider documents all of that for the model.
    """

    base: int = 0
    tile: int = 0
    patch: int = 0
    factor: float = 1.0
    cap: int = 1536
    edge: int = 0
    is_told: bool = True


_RULES = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"gpt-4o-mini", ImageRule(base=2833, tile=5667)),
        (r"gpt-4\.1-mini|gpt-5-mini", ImageRule(patch=32, factor=1.62)),
        (r"gpt-4\.1-nano|gpt-5-nano", ImageRule(patch=32, factor=2.46)),
        (r"o4-mini", ImageRule(patch=32, factor=1.72)),
        (r"gpt-5(\.1)?(-|$)", ImageRule(base=70, tile=140)),
        (r"gpt-5\.\d|gpt-[6-9]", ImageRule(patch=32, factor=1.2, is_told=False)),
        (r"o[13](-|$)", ImageRule(base=75, tile=150)),
        (r"(chat)?gpt-4", ImageRule(base=85, tile=170)),
    )
)
_CLAUDE_OLD = ImageRule(patch=28, cap=1568, edge=1568)
_CLAUDE_NEW = ImageRule(patch=28, cap=4784, edge=2576)
_UNKNOWN = ImageRule(base=85, tile=170, is_told=False)
_HIGH_CAP = 2500  # patches that newer models of OpenAI may keep


@lru_cache(maxsize=256)
def image_rule(name: str) -> ImageRule:
    """The rule of the model called `name`, without prefixes."""
    if claude_version(name) is not None or "claude" in name:
        return _CLAUDE_NEW if has_new_tokenizer(name) else _CLAUDE_OLD
    return next((rule for pattern, rule in _RULES if pattern.match(name)), _UNKNOWN)


def image_tokens(
    rule: ImageRule, source: str | None, *, detail: str = "auto"
) -> tuple[Guess, bool]:
    """Of an image given as base64 or as a `data:` URL; of any other source, a guess.

    Args:
        rule: The model's.
        source: Base64, a URL, or `None` where the request names a file.
        detail: As OpenAI's formats have it.

    Returns:
        The tokens, and whether they follow from what is here.
    """
    if detail == "low" and rule.tile:
        return (float(rule.base), float(rule.base), float(rule.base)), True
    data = None if source is None or "://" in source[:16] else base64_of(source) or source
    size = None if data is None else image_size(data)
    if size is None:
        return _unseen(rule), False
    mid = _counted(rule, *size)
    low, high = mid, mid
    if detail == "auto" and rule.tile:
        low = float(rule.base)  # the provider may choose low detail
    if not rule.is_told:
        low, high = min(low, 0.8 * mid), max(1.2 * mid, _uncapped(rule, *size))
    return (low, mid, high), True


def _unseen(rule: ImageRule) -> Guess:
    """An image that nobody can see from here: a thumbnail, a photo, the largest."""
    if rule.tile:
        return float(rule.base), float(rule.base + 4 * rule.tile), float(rule.base + 8 * rule.tile)
    cap = max(rule.cap, 0 if rule.is_told else _HIGH_CAP)
    return rule.factor, 0.6 * rule.cap * rule.factor, cap * rule.factor


def _uncapped(rule: ImageRule, width: int, height: int) -> float:
    if not rule.patch:
        return 0.0
    patches = ceil(width / rule.patch) * ceil(height / rule.patch)
    return min(patches, _HIGH_CAP) * rule.factor


def _counted(rule: ImageRule, width: int, height: int) -> float:
    return _tiles(rule, width, height) if rule.tile else _patches(rule, width, height)


def _tiles(rule: ImageRule, width: int, height: int) -> float:
    """Into a square of 2048 pixels, its shorter side down to 768, in tiles of 512."""
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    across, down = ceil(width * scale / 512), ceil(height * scale / 512)
    return float(rule.base + rule.tile * max(1, across) * max(1, down))


def _patches(rule: ImageRule, width: int, height: int) -> float:
    """In squares; a larger image is scaled down until they are few enough."""
    scale = min(1.0, rule.edge / max(width, height)) if rule.edge else 1.0
    patches = _grid(rule, width * scale, height * scale)
    if patches > rule.cap:
        shrink = sqrt(rule.cap / (width * height * scale * scale)) * rule.patch
        across, down = width * scale * shrink / rule.patch, height * scale * shrink / rule.patch
        shrink *= min(_floored(across), _floored(down))
        patches = min(rule.cap, _grid(rule, width * scale * shrink, height * scale * shrink))
    return patches * rule.factor


def _floored(number: float) -> float:
    return max(1.0, number // 1) / number


def _grid(rule: ImageRule, width: float, height: float) -> int:
    slack = 1e-6  # a division may leave a hair too much
    return max(1, ceil(width / rule.patch - slack)) * max(1, ceil(height / rule.patch - slack))
