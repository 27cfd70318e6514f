"""What can only be guessed at from here: files, sound, and images that are somewhere else."""

from __future__ import annotations

from typing import Any

from .images import image_rule, image_tokens
from .tally import Tally

__all__ = ["add_audio", "add_file", "add_image"]

_PAGE = (300.0, 1500.0, 5000.0)
"""Tokens of a page: text alone; text; text and an image of it (platform.claude.com, "PDF")."""
_PAGE_BYTES = (200_000, 60_000, 8_000)  # of a file, for each of its pages
_PER_SECOND = 10.0  # tokens of sound: OpenAI, "Audio", one for 100 ms of input
_SECOND_BYTES = (192_000, 32_000, 4_000)  # studio quality, speech, a tight MP3


def add_image(tally: Tally, source: Any, path: str, *, detail: Any = "auto") -> None:
    """An image at `path`, given as base64, as a URL, or elsewhere (`None`)."""
    tally.has_images = True
    given = source if isinstance(source, str) else None
    guess, is_seen = image_tokens(image_rule(tally.name), given, detail=detail or "auto")
    tally.guess(*guess, path=None if is_seen else path)


def add_file(tally: Tally, data: Any, path: str) -> None:
    """A document at `path`, as base64; `None` where it is somewhere else."""
    tally.has_files = True
    size = len(data) * 3 // 4 if isinstance(data, str) else 1_000_000
    low, mid, high = (
        page * max(1.0, size / per_page) for page, per_page in zip(_PAGE, _PAGE_BYTES, strict=True)
    )
    tally.guess(low, mid, high, path)


def add_audio(tally: Tally, data: Any, path: str) -> None:
    """Sound at `path`, as base64."""
    tally.has_files = True
    size = len(data) * 3 // 4 if isinstance(data, str) else 1_000_000
    low, mid, high = (max(1.0, _PER_SECOND * size / rate) for rate in _SECOND_BYTES)
    tally.guess(low, mid, high, path)
