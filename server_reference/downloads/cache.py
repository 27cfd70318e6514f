"""Where fetched and converted files are kept, and how one is written whole or not at all."""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_writer", "cache_dir"]


def cache_dir() -> Path:
    """The folder of this user's cache: `$SMARTCLIENT_CACHE`, else under the XDG cache home.

    It is not made here. A relative `XDG_CACHE_HOME` is ignored.

    Source:
        XDG Base Directory Specification 0.8, section 3.
    """
    own = os.environ.get("SMARTCLIENT_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "smartclient"


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears at `path` complete, once the block ends without an error.

    Two writers at once are safe: the last one to finish wins. Parent folders are made, and what
    writers left that were killed is removed.

    Raises:
        OSError: The folder cannot be written to, or the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_over(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # not every filesystem has locks
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _remove_left_over(path: Path) -> None:
    """Parts that nobody writes any more: a process that is killed holds no lock."""
    for part in path.parent.glob(f".{glob.escape(path.name)}-*.part"):
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()
