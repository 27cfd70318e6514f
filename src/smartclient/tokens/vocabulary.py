"""The tokenizers of this machine: toktok-rs, or tiktoken where its vocabulary is on disk.

Nothing here uses the network. tiktoken would fetch a missing vocabulary without a timeout
(openai/tiktoken#287), so it is asked only after the file was found and its hash was right.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread

from msgspec import Struct

from .encodings import Encoding
from .pieces import pieces, well_formed

__all__ = ["FILES", "LIMIT", "CountMany", "Vocabularies", "VocabularyFile", "cached_file"]

CountMany = Callable[[Sequence[str]], list[int]]

LIMIT = 65_536  # characters that a tokenizer is given at once


class VocabularyFile(Struct, frozen=True):
    """Where a vocabulary comes from, and the hash that it must have."""

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """What tiktoken calls the file in its cache."""
        return hashlib.sha1(self.url.encode(), usedforsecurity=False).hexdigest()

    def is_right(self, data: bytes) -> bool:
        return hashlib.sha256(data).hexdigest() == self.sha256


_HOME = "https://openaipublic.blob.core.windows.net/encodings"
_O200K = VocabularyFile(
    f"{_HOME}/o200k_base.tiktoken",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
)
FILES: dict[Encoding, VocabularyFile] = {
    "o200k_base": _O200K,
    "o200k_harmony": _O200K,  # the same, with other control tokens
    "cl100k_base": VocabularyFile(
        f"{_HOME}/cl100k_base.tiktoken",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}


class Vocabularies:
    """Tokenizers, each loaded once, when it is first asked for.

    Where there is none, each call looks whether the file that tiktoken reads has come.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: dict[Encoding, CountMany] = {}
        self._missing: dict[Encoding, _Stamp] = {}
        self._loading: set[Encoding] = set()

    def get(self, encoding: Encoding, *, wait: bool = True) -> CountMany | None:
        """What counts texts in `encoding`; `None` where no vocabulary is at hand.

        Args:
            encoding: Which.
            wait: Load it now, which takes about half a second once; without, a thread
                loads it, and until then there is none.
        """
        found = self._loaded.get(encoding)
        if found is not None or self._missing.get(encoding) == _stamp(encoding):
            return found
        if wait:
            return self._load(encoding)
        with self._lock:
            is_first = encoding not in self._loading
            self._loading.add(encoding)
        if is_first:
            Thread(target=self._load, args=(encoding,), name="vocabulary", daemon=True).start()
        return None

    def _load(self, encoding: Encoding) -> CountMany | None:
        with self._lock:
            stamp = _stamp(encoding)
            found = self._loaded.get(encoding)
            if found is None and self._missing.get(encoding) != stamp:
                found = _toktok(encoding) or _tiktoken(encoding)
                if found is None:
                    self._missing[encoding] = stamp
                else:
                    self._loaded[encoding] = found
            self._loading.discard(encoding)
            return found


_Stamp = tuple[int, int]
"""When a file was written, and its size; zeros where there is none."""


def _stamp(encoding: Encoding) -> _Stamp:
    path = cached_file(encoding)
    try:
        state = None if path is None else path.stat()
    except OSError:
        state = None
    return (0, 0) if state is None else (state.st_mtime_ns, state.st_size)


def cached_file(encoding: Encoding) -> Path | None:
    """The file that tiktoken reads `encoding` from; `None` where it keeps none.

    Source: tiktoken 0.14.0, `load.py`.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder == "":
        return None
    home = Path(folder) if folder else Path(tempfile.gettempdir()) / "data-gym-cache"
    return home / FILES[encoding].name


def _toktok(encoding: Encoding) -> CountMany | None:
    if find_spec("toktok") is None:
        return None
    from toktok import batch_count  # type: ignore[import-untyped]  # it ships no types

    batch_count(["load it"], encoding, 1)
    return lambda texts: _split(texts, lambda parts: batch_count(parts, encoding, 1))


def _tiktoken(encoding: Encoding) -> CountMany | None:
    path = cached_file(encoding)
    try:
        data = b"" if path is None else path.read_bytes()
    except OSError:
        return None
    if not FILES[encoding].is_right(data):  # cut short or foreign: tiktoken would download
        return None
    from tiktoken import get_encoding

    ordinary = get_encoding(encoding).encode_ordinary
    return lambda texts: _split(texts, lambda parts: [len(ordinary(part)) for part in parts])


def _split(texts: Sequence[str], count: Callable[[list[str]], list[int]]) -> list[int]:
    """Count `texts` with `count`, which never sees a long or a malformed one."""
    if all(len(text) <= LIMIT for text in texts):
        try:
            return count(list(texts))
        except UnicodeEncodeError:  # of a lone surrogate somewhere
            pass
    return [_whole(text, count) for text in texts]


def _whole(text: str, count: Callable[[list[str]], list[int]]) -> int:
    total = 0
    for piece in pieces(text, LIMIT):
        try:
            total += count([piece])[0]
        except UnicodeEncodeError:
            total += count([well_formed(piece)])[0]
    return total
