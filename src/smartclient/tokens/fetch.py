"""Fetch a vocabulary for tiktoken: only when asked to, in a thread, under a time limit."""

from __future__ import annotations

import os
from concurrent.futures import Future
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread
from time import monotonic

from .._errors import SmartClientError
from .encodings import Encoding
from .vocabulary import FILES, VocabularyFile, cached_file

__all__ = ["DownloadError", "download"]

_PIECE = 1 << 16
_LARGEST = 32 << 20  # bytes; the largest vocabulary has 3.6 million


class DownloadError(SmartClientError):
    """A vocabulary could not be fetched; texts are estimated as before."""

    __module__ = "smartclient.tokens"  # where users know it from


def download(
    encoding: Encoding = "o200k_base", *, timeout: float = 60.0, url: str | None = None
) -> Future[Path]:
    """Begin to fetch the vocabulary `encoding` into tiktoken's cache, in a thread.

    No count waits for it. A file that is there and whole is not fetched again.

    Args:
        encoding: Which.
        timeout: Seconds that it may take in all.
        url: Where from; `None` is OpenAI's own address. Its hash is checked either way.

    Returns:
        Its path, once it is there; or a `DownloadError` that says what went wrong.

    Raises:
        ValueError: An unknown encoding, or a timeout that is not above 0.
    """
    if encoding not in FILES:
        raise ValueError(f"encoding must be one of {', '.join(FILES)}, not {encoding!r}")
    if not timeout > 0:
        raise ValueError(f"timeout must be above 0 s, not {timeout}")
    done: Future[Path] = Future()
    done.set_running_or_notify_cancel()
    source, path = FILES[encoding], cached_file(encoding)

    def work() -> None:
        try:
            done.set_result(_fetch(source, path, url or source.url, timeout))
        except BaseException as error:
            done.set_exception(error)

    Thread(target=work, name="vocabulary-download", daemon=True).start()
    return done


def _fetch(source: VocabularyFile, path: Path | None, url: str, timeout: float) -> Path:
    if path is None:
        raise DownloadError("TIKTOKEN_CACHE_DIR is empty, which turns tiktoken's cache off")
    if path.exists() and source.is_right(path.read_bytes()):
        return path
    data = _get(url, timeout)
    if not source.is_right(data):
        raise DownloadError(
            f"what {url} sent ({len(data):,} bytes) has not the hash of the vocabulary: a proxy's "
            "page, or a download cut short; nothing was kept"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(data)
        os.replace(file.name, path)  # noqa: PTH105 (the name is a string)
    except OSError as error:
        raise DownloadError(f"the vocabulary cannot be written to {path}: {error}") from error
    return path


def _get(url: str, timeout: float) -> bytes:
    """The body of `url`, in `timeout` seconds in all."""
    from urllib.request import urlopen  # with http.client, not needed to count

    end = monotonic() + timeout
    parts: list[bytes] = []
    size = 0
    try:
        with urlopen(url, timeout=timeout) as reply:  # addresses of the user's own choice
            while piece := reply.read1(_PIECE):
                parts.append(piece)
                size += len(piece)
                if monotonic() > end:
                    raise DownloadError(f"{url} took longer than {timeout:g} s")
                if size > _LARGEST:
                    raise DownloadError(f"{url} sent over {_LARGEST:,} bytes: no vocabulary")
    except (OSError, ValueError) as error:
        raise DownloadError(f"{url} could not be fetched: {error}") from error
    return b"".join(parts)
