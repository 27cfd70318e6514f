"""How many tokens a request is before it is sent, how sure that is, and how to make it fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .calibration import Calibrator
from .counting import count
from .endpoints import countable, exact
from .fetch import DownloadError, download
from .values import TokenCount

if TYPE_CHECKING:
    from .boilerplate_report import BoilerplateReport, Repeated
    from .fitting import Fitted, TooLongError, fit
    from .repetition import Boilerplate, boilerplate
    from .summaries import SummaryError

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

_LATER = {  # not what a program that only counts needs
    "Boilerplate": "repetition",
    "BoilerplateReport": "boilerplate_report",
    "Fitted": "fitting",
    "Repeated": "boilerplate_report",
    "SummaryError": "summaries",
    "TooLongError": "fitting",
    "boilerplate": "repetition",
    "fit": "fitting",
}


def __getattr__(name: str) -> Any:
    """Load what not every program needs when it is first asked for."""
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return found
