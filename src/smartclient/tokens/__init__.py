"""How many tokens a request is before it is sent, and how sure that is."""

from __future__ import annotations

from .calibration import Calibrator
from .counting import count
from .download import DownloadError, download
from .exact import countable, exact
from .values import TokenCount

__all__ = [
    "Calibrator",
    "DownloadError",
    "TokenCount",
    "count",
    "countable",
    "download",
    "exact",
]
