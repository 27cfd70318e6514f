"""The worlds in which the client's tests run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.smartclient.fakes import ASYNCIO, BLOCKING, TRIO, World


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test takes the address or the key of whoever runs it."""
    for provider in ("ANTHROPIC", "OPENAI"):
        for name in ("API_KEY", "BASE_URL"):
            monkeypatch.delenv(f"{provider}_{name}", raising=False)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free objects."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(
    params=[
        pytest.param(BLOCKING, id="blocking"),
        pytest.param(ASYNCIO, id="asyncio"),
        pytest.param(TRIO, id="trio"),
    ]
)
def world(request: pytest.FixtureRequest) -> World:
    """Blocking, asyncio and trio: where flows and bodies run."""
    return request.param


@pytest.fixture(params=[pytest.param(BLOCKING, id="blocking"), pytest.param(ASYNCIO, id="asyncio")])
def home(request: pytest.FixtureRequest) -> World:
    """Blocking and asyncio: where our own clients run."""
    return request.param
