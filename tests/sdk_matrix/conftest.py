"""Runs this folder by itself too: `python -m tools.sdk_matrix` does, in venvs of their own.

Nothing here imports more than pytest, one or both SDKs, smartclient and the scripted server.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A case is written once, as a coroutine, for blocking and for async clients."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
