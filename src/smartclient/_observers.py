"""What is said when one who only watches a call fails: the call goes on, the log tells."""

from __future__ import annotations

__all__ = ["failed"]


def failed(what: str, observer: object) -> None:
    """Log the exception that is being handled."""
    # Loaded here: most processes never need it, and it is not cheap.
    import logging

    logging.getLogger("smartclient").exception("%s: %r", what, observer)
