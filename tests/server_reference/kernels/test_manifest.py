"""The committed rows, and that nothing else is launched; by a process that does not interpret."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from server_reference.kernels.manifest import MANIFEST, TARGETS, Row, read, rows
from tests.layers import ROOT

MOST = 40


@pytest.mark.timeout(300)
def test_whatever_a_batch_is_like_all_that_it_launches_is_in_the_manifest():
    """Of every supported model, on every chip; and the file is what the wrappers launch."""
    environment = {name: os.environ[name] for name in os.environ if name != "TRITON_INTERPRET"}

    done = subprocess.run(
        [sys.executable, "-m", "tools.kernel_manifest", "--check", "12"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stderr, done.returncode) == ("", 0), done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_there_are_not_too_many_rows_to_compile_in_every_check(target):
    assert 30 <= len(rows(target)) <= MOST


def test_no_row_stands_twice():
    every = [row for row, _ in read(MANIFEST)]

    assert len(every) == len(set(every))


def test_a_row_is_read_as_it_was_written():
    for row, _ in read(MANIFEST):
        assert Row.of_json(row.as_json()) == row


def test_a_chip_that_is_no_target_has_no_rows():
    assert rows("sm_89") == ()
