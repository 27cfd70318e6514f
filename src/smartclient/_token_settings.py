"""What a client is told about prices and counts of tokens, checked where it is given."""

from __future__ import annotations

from typing import Any

from .catalog import Catalog, catalog_of
from .tokens import Calibrator

__all__ = ["catalog_from", "check_calibrator"]


def catalog_from(given: Any) -> Catalog | None:
    """The catalog that a setting means; `None` leaves ours unread until a call is priced.

    Raises:
        OSError: A file cannot be read.
        TypeError: It is no catalog, mapping or path.
        ValueError: Names the file, the model and the field that cannot be.
    """
    return None if given is None else catalog_of(given)


def check_calibrator(given: Any) -> None:
    """Raise unless it is one, or none.

    Raises:
        TypeError: It is something else.
    """
    if given is not None and not isinstance(given, Calibrator):
        raise TypeError(
            f"calibrator must be a Calibrator, not {type(given).__name__}; Calibrator.load(path) "
            "reads what an earlier run saved"
        )
