"""What is said when one who only watches a call fails: the call goes on, the log tells."""

from __future__ import annotations

__all__ = ["failed", "warned"]


def failed(what: str, observer: object) -> None:
    """Log the exception that is being handled."""
    # Loaded here: most processes never need it, and it is not cheap.
    import logging

    logging.getLogger("smartclient").exception("%s: %r", what, observer)


def warned(message: str, *facts: object) -> None:
    """Log what somebody should know while the call goes on.

    The log, not the `warnings` module: a filter that turns warnings into errors would end
    a call whose only fault is that we know less than we could.
    """
    import logging

    logging.getLogger("smartclient").warning(message, *facts)
