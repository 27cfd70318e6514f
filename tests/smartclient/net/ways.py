"""Routes for tests."""

from __future__ import annotations

from smartclient._call import Origin
from smartclient.net.options import NetOptions
from smartclient.net.routes import Route, Routes

__all__ = ["a_route"]


def a_route(host: str = "a.example", **options) -> Route:
    """The way to a plain origin."""
    return Routes(NetOptions(**options)).to(Origin("http", host, 80))
