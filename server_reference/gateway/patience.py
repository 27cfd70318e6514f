"""How long a call's client waits, as it or a proxy before it says.

Source:
    Envoy documentation, "HTTP header manipulation", x-envoy-expected-rq-timeout-ms;
    OpenAI's and Anthropic's SDKs, x-stainless-timeout and x-stainless-read-timeout: seconds
    that they wait for a byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..api.record import CallRecord

__all__ = ["note_patience"]

_SILENCES = ("x-stainless-read-timeout", "x-stainless-timeout")


def note_patience(record: CallRecord, headers: Mapping[str, str]) -> None:
    """Note in `record` when the client gives up; what is no number of seconds says nothing."""
    milliseconds = _positive(headers.get("x-envoy-expected-rq-timeout-ms"))
    record.deadline = None if milliseconds is None else milliseconds / 1000
    told = [_positive(headers.get(name)) for name in _SILENCES]
    record.silence = min((one for one in told if one is not None), default=None)


def _positive(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None
