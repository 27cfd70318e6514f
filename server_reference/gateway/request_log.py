"""One line of JSON per request, written by a thread of its own, off the request's path."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ..api.errors import shortened
from ..api.record import CallRecord

__all__ = ["LogTarget", "RequestLog", "line_of"]

_log = logging.getLogger(__name__)

LogTarget = str | Path | Callable[[Mapping[str, object]], None]
"""A file to append to, `-` for stderr, or a callable that takes each line's fields."""

_CLOSE_SECONDS = 2.0


def line_of(record: CallRecord, *, now: datetime) -> dict[str, object]:
    """The fields of a line; what is not known is null. Never a key, a header or text."""
    return {
        "at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "request_id": record.id,
        "tenant": record.tenant,
        "endpoint": shortened(record.endpoint),
        "model": None if record.model is None else shortened(record.model),
        "stream": record.stream,
        "status": record.status,
        "outcome": record.outcome,
        "input_tokens": record.input_tokens,
        "cache_read": record.cache_read,
        "output_tokens": record.output_tokens,
        "duration": round(record.elapsed(), 6),
        "stages": {
            name: {"start": round(stage.start, 6), "duration": round(stage.duration, 6)}
            for name, stage in record.stages.items()
        },
    }


class RequestLog:
    """Takes records at once and writes them later.

    When the target is slower than the requests, lines are dropped rather than requests
    slowed; the next line that is written says how many, as `dropped`.

    Args:
        target: Where lines go; `None` writes none.
        max_waiting: Lines that may wait to be written.
    """

    def __init__(self, target: LogTarget | None, *, max_waiting: int = 10_000) -> None:
        self._queue: queue.Queue[dict[str, object] | None] = queue.Queue(max_waiting)
        self._dropped = 0
        self._thread: threading.Thread | None = None
        if target is not None:
            self._write, self._close = _open(target)
            self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)
            self._thread.start()

    def put(self, record: CallRecord) -> None:
        """Write a line for `record`, soon. Never blocks."""
        if self._thread is None:
            return
        fields = line_of(record, now=datetime.now(UTC))
        if self._dropped:
            fields["dropped"] = self._dropped
        try:
            self._queue.put_nowait(fields)
        except queue.Full:
            self._dropped += 1
        else:
            self._dropped = 0

    def close(self) -> None:
        """Write what waits, within two seconds, and close the file."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        try:
            self._queue.put(None, timeout=_CLOSE_SECONDS)
        except queue.Full:
            _log.warning("the request log lost up to %d lines at the end", self._queue.qsize())
        else:
            thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        is_failing = False
        while (fields := self._queue.get()) is not None:
            try:
                self._write(fields)
            except Exception as error:  # a full disk or a broken callable must not end the log
                if not is_failing:  # told once, not for every request
                    cause = None if isinstance(error, OSError) else error
                    _log.error(
                        "lines of the request log cannot be written: %s", error, exc_info=cause
                    )
                is_failing = True
            else:
                is_failing = False
        self._close()


def _open(
    target: LogTarget,
) -> tuple[Callable[[Mapping[str, object]], object], Callable[[], None]]:
    """How a line is written, and how the target is closed."""
    if callable(target):
        return target, lambda: None
    if str(target) == "-":
        return lambda fields: sys.stderr.write(_json(fields).decode()), lambda: None
    file = Path(target).open("ab", buffering=0)  # noqa: SIM115 - closed by the log's thread
    return lambda fields: file.write(_json(fields)), file.close


def _json(fields: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(fields) + b"\n"
