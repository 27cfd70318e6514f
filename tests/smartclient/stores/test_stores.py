"""Stores are named through their package, and loaded when they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from smartclient import stores


def said_by(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout + done.stderr


def test_a_store_loads_nothing_of_another():
    program = (
        "import sys, smartclient; smartclient.stores.SQLiteStore; print('redis' in sys.modules)"
    )

    assert said_by(program) == "False\n"


def test_without_its_package_redis_is_refused_naming_the_extra():
    program = (
        "import sys; sys.modules['redis'] = None; import smartclient.stores as s; s.RedisStore"
    )

    assert said_by(program).endswith(
        "ImportError: a RedisStore needs the package redis; install smartclient[redis]\n"
    )


def test_a_store_that_there_is_none_of_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'DiskStore'"):
        stores.DiskStore  # noqa: B018
