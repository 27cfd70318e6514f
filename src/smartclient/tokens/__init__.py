"""How many tokens a request is before it is sent, and how sure that is."""

from __future__ import annotations

from .calibration import Calibrator
from .counting import count
from .endpoints import countable, exact
from .fetch import DownloadError, download
from .fitting import Fitted, TooLongError, fit
from .summaries import SummaryError
from .values import TokenCount

__all__ = [
    "Calibrator",
    "DownloadError",
    "Fitted",
    "SummaryError",
    "TokenCount",
    "TooLongError",
    "count",
    "countable",
    "download",
    "exact",
    "fit",
]
