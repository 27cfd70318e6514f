"""The kernels under the oldest Triton that they are for, beside no torch at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_reference.kernels import manifest
from server_reference.kernels.aot_processes import compile_all
from server_reference.kernels.manifest import TARGETS, Row, rows
from tests.server_reference.kernels.older_triton import PACKAGES, interpreter

COUNT = 10

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def is_without_torch(kernel):
    """Whether the kernel's module can be imported where there is no torch."""
    source = Path(manifest.__file__).with_name(f"{kernel.partition(':')[0]}.py").read_text()
    return "import torch" not in source and "from .launch" not in source


def some_jobs():
    """Ten rows: one of each kernel first, every time for another chip."""
    known: dict[str, list[tuple[str, Row]]] = {}
    for target in TARGETS:
        for row in rows(target):
            if is_without_torch(row.kernel):
                known.setdefault(row.kernel, []).append((target, row))
    # The third of a kernel's rows for the third kernel, and so on: not all are for one chip.
    turned = [jobs[at * 3 % len(jobs) :] + jobs for at, jobs in enumerate(known.values())]
    return [job for turn in zip(*turned, strict=False) for job in turn][:COUNT]


def test_ten_rows_compile_under_an_older_triton():
    jobs = some_jobs()

    version, results = compile_all(jobs, python=str(interpreter()))

    assert len(jobs) == COUNT
    assert f"triton=={version}" in PACKAGES
    assert [result.wrongs for result in results if result.wrongs] == []
