"""How long a reply asks whoever sends again to wait.

Source: RFC 9110, sections 5.6.7 (three forms of a date) and 10.2.3 (Retry-After);
`retry-after-ms` is what the official SDKs read besides.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

from .entries import Entry

__all__ = ["asked_wait"]

_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]*)?|\.[0-9]+")
_TOLERANCE, _TOLERANCE_SHARE, _DATE_TOLERANCE = 0.02, 0.01, 1.0


def asked_wait(entry: Entry, *, reads_dates: bool = True) -> tuple[float, float] | None:
    """Seconds from the reply's head, and how much less is still in order.

    Args:
        reads_dates: Whether a date counts: it does where client and server share a clock.

    Returns:
        `None` if nothing was asked, or nothing that can be read.
    """
    if entry.status is None or entry.status < 400:
        return None
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = (entry.reply_header(name) or "").strip()
        if _NUMBER.fullmatch(text):
            seconds = float(text) * unit
            return seconds, max(_TOLERANCE, seconds * _TOLERANCE_SHARE)
    if not reads_dates or entry.head_at is None:
        return None
    at = _date((entry.reply_header("retry-after") or "").strip())
    return None if at is None else (max(0.0, at - entry.head_at), _DATE_TOLERANCE)


def _date(text: str) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # The oldest form names no zone, and means UTC as the others do.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
