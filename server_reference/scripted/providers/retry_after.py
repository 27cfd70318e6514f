"""The ways in which servers say how long to wait, right and wrong.

Source: RFC 9110, sections 5.6.7 (three forms of a date) and 10.2.3 (Retry-After);
`retry-after-ms` is what openai-python and anthropic-sdk-python read besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from ..nearest import unknown

__all__ = ["RETRY_AFTER_FORMS", "retry_after"]

_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(math.ceil(at), UTC)


def _imf_fixdate(at: float) -> str:
    # Not strftime: its names follow the machine's language.
    t = _moment(at)
    month = _MONTHS[t.month - 1]
    return f"{_DAYS[t.weekday()][:3]}, {t.day:02} {month} {t.year:04} {t:%H:%M:%S} GMT"


def _rfc850(at: float) -> str:
    t = _moment(at)
    month = _MONTHS[t.month - 1]
    return f"{_DAYS[t.weekday()]}, {t.day:02}-{month}-{t.year % 100:02} {t:%H:%M:%S} GMT"


def _asctime(at: float) -> str:
    t = _moment(at)
    return f"{_DAYS[t.weekday()][:3]} {_MONTHS[t.month - 1]} {t.day:2} {t:%H:%M:%S} {t.year:04}"


def _seconds(seconds: float) -> str:
    return str(math.ceil(seconds))


def _milliseconds(seconds: float) -> str:
    return str(math.ceil(round(seconds * 1000, 6)))


def _fraction(seconds: float) -> str:
    # Rounded before ceil: 2.007 * 1000 is a little more than 2007.
    return f"{math.ceil(round(seconds * 1000, 6)) / 1000:.3f}"


_Fields = Callable[[float, float], dict[str, str]]

RETRY_AFTER_FORMS: Mapping[str, _Fields] = {
    "seconds": lambda wait, now: {"retry-after": _seconds(wait)},
    "fraction": lambda wait, now: {"retry-after": _fraction(wait)},
    "ms": lambda wait, now: {"retry-after-ms": _milliseconds(wait)},
    "both": lambda wait, now: {
        "retry-after": _seconds(wait),
        "retry-after-ms": _milliseconds(wait),
    },
    "imf_fixdate": lambda wait, now: {"retry-after": _imf_fixdate(now + wait)},
    "rfc850": lambda wait, now: {"retry-after": _rfc850(now + wait)},
    "asctime": lambda wait, now: {"retry-after": _asctime(now + wait)},
    "none": lambda wait, now: {},
    # What no client should follow.
    "past": lambda wait, now: {"retry-after": _imf_fixdate(now - 3600)},
    "negative": lambda wait, now: {"retry-after": "-5"},
    "huge": lambda wait, now: {"retry-after": "100000"},
    "infinite": lambda wait, now: {"retry-after": "inf"},
    "not_a_number": lambda wait, now: {"retry-after": "nan"},
    "word": lambda wait, now: {"retry-after": "soon"},
    "empty": lambda wait, now: {"retry-after": ""},
    "year_99999": lambda wait, now: {"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"},
}
"""Name of a form → the header fields for a wait in seconds from now."""


def retry_after(seconds: float, *, form: str = "seconds", now: float = 0.0) -> dict[str, str]:
    """Header fields that ask a client to wait.

    Args:
        seconds: How long, at least 0; whole seconds are rounded up.
        form: A name in `RETRY_AFTER_FORMS`. The malformed ones take no notice of `seconds`.
        now: Unix seconds, for the forms that name a date.

    Raises:
        ValueError: `form` is unknown, or `seconds` is negative or not finite.
    """
    if form not in RETRY_AFTER_FORMS:
        raise ValueError(unknown("form of retry-after", form, RETRY_AFTER_FORMS))
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(
            f"a wait must be at least 0 s and finite, not {seconds}; "
            "for a malformed retry-after name a form such as 'negative' or 'infinite'"
        )
    return RETRY_AFTER_FORMS[form](seconds, now)
