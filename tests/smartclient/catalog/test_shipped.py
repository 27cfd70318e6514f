"""The catalog that we ship is read once, however many ask."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from smartclient import catalog
from smartclient.catalog.shipped import CATALOG


def test_every_thread_gets_the_same_one():
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: catalog.builtin(), range(32)))

    assert all(one is CATALOG for one in found)
