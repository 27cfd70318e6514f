"""The kernels under the oldest Triton that they are for, beside no torch at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from server_reference.kernels import manifest
from server_reference.kernels.aot_processes import compile_all
from server_reference.kernels.manifest import TARGETS, rows
from tests.server_reference.kernels.older_triton import PACKAGES, interpreter

COUNT = 10

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def is_without_torch(kernel):
    """Whether the kernel's module can be imported where there is no torch."""
    source = Path(manifest.__file__).with_name(f"{kernel.partition(':')[0]}.py").read_text()
    return "import torch" not in source and "from .launch" not in source


def some_jobs():
    """Ten rows: of each kernel the first ones, each time for another chip."""
    seen = {}
    for at, target in enumerate(TARGETS):
        for row in rows(target):
            if is_without_torch(row.kernel):
                seen.setdefault(row.kernel, []).append((target, row))
    turns = [
        some[at % len(some) :] + some[: at % len(some)] for at, some in enumerate(seen.values())
    ]
    return [job for turn in zip(*turns, strict=False) for job in turn][:COUNT]


def test_ten_rows_compile_under_an_older_triton():
    jobs = some_jobs()

    version, results = compile_all(jobs, python=str(interpreter()))

    assert len(jobs) == COUNT
    assert f"triton=={version}" in PACKAGES
    assert [result.wrongs for result in results if result.wrongs] == []
