"""Entries at the end of a file that others append to as well, each line whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from weakref import finalize

from .. import _observers
from .entry import Entry
from .lines import encoded, is_entry

__all__ = ["Appender"]

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
_FIRST = 65_536  # bytes in which the first line of a ledger ends


class Appender:
    """Appends entries to a file at once.

    A line is one write to a file that is opened for appending, so that lines of several
    processes do not mix. Not for several threads at once.

    Attributes:
        path: Of the file.
        lost: Entries that could not be written.

    Raises:
        OSError: It cannot be written.
        ValueError: It holds something else than a ledger.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lost = 0
        try:
            self._file = os.open(path, _FLAGS, 0o666)
        except OSError as error:
            why = error.strerror or error
            raise OSError(
                error.errno,
                f"the ledger cannot be written ({why}); name a file in a folder that you may "
                "write to",
                os.fspath(path),
            ) from None
        self.close = finalize(self, os.close, self._file)
        self.close.atexit = False  # the system closes it, and a last call may yet be written
        self._is_failing = False
        try:
            self._is_torn = _ends_inside_a_line(self._file, path)
        except BaseException:
            self.close()
            raise

    def append(self, entry: Entry) -> None:
        """Write it; where that fails, say so once and count it as lost."""
        line = encoded(entry)
        line = b"\n" + line if self._is_torn else line
        try:
            written = os.write(self._file, line)
        except OSError as error:
            self._lose(str(error.strerror or error))
            return
        self._is_torn = written < len(line)
        if self._is_torn:
            self._lose("only a part of the line was written")
        elif self._is_failing:
            self._is_failing = False
            _observers.warned("the ledger %s is written again; entries lost: %d", self.path,
                              self.lost)  # fmt: skip

    def _lose(self, why: str) -> None:
        self.lost += 1
        if not self._is_failing:
            self._is_failing = True
            _observers.warned(
                "the ledger %s cannot be written: %s; calls go on, and what is lost is counted",
                self.path,
                why,
            )


def _ends_inside_a_line(file: int, path: Path) -> bool:
    """Whether a process was cut off while it wrote the last line; refuse what is no ledger."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
        return False
    os.lseek(file, 0, os.SEEK_SET)
    head = os.read(file, _FIRST)
    if not is_entry(head):
        raise ValueError(f"{path} has {found.st_size:,} bytes of something else than a ledger")
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1) != b"\n"
