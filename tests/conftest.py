"""What every test runs under: few threads, fixed seeds, and no silent skip in CI."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Before torch and triton are imported by any test.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # triton 3.9 warns when it is not set

MUST_RUN = ("smollm2", "sdk", "redis")
"""Marks of tests that prove the main job: under CI a skip of one is a failure."""

settings.register_profile(
    "default", derandomize=True, deadline=None, max_examples=60, database=None
)
settings.register_profile(
    "all",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the long forms of the tests too")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("all" if config.getoption("--all") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_collection_finish() -> None:
    """Spare the garbage collector a look through thousands of tests each time that it runs."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What is collected as Python ends is collected again."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    is_expected_failure = hasattr(report, "wasxfail")
    if _in_ci() and report.skipped and not is_expected_failure:
        marks = [mark for mark in MUST_RUN if item.get_closest_marker(mark)]
        if marks:
            report.outcome = "failed"
            report.longrepr = f"under CI a {marks[0]} test may not be skipped: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if _in_ci() and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"under CI no module may be skipped as a whole: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Half a surrogate pair in what a test logged would end a worker of pytest-xdist."""
    return _encodable((yield))


def _encodable(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {_encodable(key): _encodable(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(map(_encodable, data))
    return data


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test goes through the proxy of whoever runs it."""
    for name in ("HTTP", "HTTPS", "ALL", "NO"):
        monkeypatch.delenv(f"{name}_PROXY", raising=False)
        monkeypatch.delenv(f"{name}_PROXY".lower(), raising=False)


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Chance that a test does not pass on by itself repeats, whatever ran before."""
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
