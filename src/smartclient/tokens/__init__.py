"""How many tokens a request is before it is sent, and how sure that is."""

from __future__ import annotations

from .boilerplate_report import BoilerplateReport, Repeated
from .calibration import Calibrator
from .counting import count
from .endpoints import countable, exact
from .fetch import DownloadError, download
from .fitting import Fitted, TooLongError, fit
from .repetition import Boilerplate, boilerplate
from .summaries import SummaryError
from .values import TokenCount

__all__ = [
    "Boilerplate",
    "BoilerplateReport",
    "Calibrator",
    "DownloadError",
    "Fitted",
    "Repeated",
    "SummaryError",
    "TokenCount",
    "TooLongError",
    "boilerplate",
    "count",
    "countable",
    "download",
    "exact",
    "fit",
]
