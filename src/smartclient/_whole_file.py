"""A file that is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """What is written in the block becomes `path`; who reads that sees the old file or the new.

    Raises:
        OSError: It cannot be written.
    """
    with NamedTemporaryFile(
        "w", encoding="utf-8", newline="", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            yield file.file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            Path(file.name).unlink()
            raise
    Path(file.name).replace(path)
