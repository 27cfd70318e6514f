"""The committed rows, and that nothing else is launched; by a process that does not interpret."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from server_reference.kernels.manifest import MANIFEST, TARGETS, Row, read, rows
from tests.layers import ROOT

MOST = 40
MIXED = """
import torch
from server_reference.kernels.attention import paged_attention
from server_reference.kernels.launch import recorded
from server_reference.kernels.manifest import TARGETS
q = torch.empty(43, 4, 128, dtype=torch.bfloat16, device="meta")
cache, table = q.new_empty(9, 16, 2, 128), q.new_empty(4, 5, dtype=torch.int32)
lens = table.new_empty(5), table.new_empty(4)
numbers = {"scale": 1.0, "num_decodes": 2, "max_query_len": 36}
for target in TARGETS:
    with recorded(target) as rows:
        paged_attention(q, cache, cache, table, *lens, out=q, **numbers)
    print(*(dict(row.configuration.constants)["BLOCK_M"] for row in rows))
"""


def started(*arguments):
    environment = {name: os.environ[name] for name in os.environ if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(300)
def test_whatever_a_batch_is_like_all_that_it_launches_is_in_the_manifest():
    """Of every supported model, on every chip; and the file is what the wrappers launch."""
    done = started("-m", "tools.kernel_manifest", "--check", "12")

    assert (done.stderr, done.returncode) == ("", 0), done.stdout


def test_decodes_and_prompts_are_two_launches():
    """The decodes' of the fewest rows that a matrix unit takes, the prompts' of many."""
    done = started("-c", MIXED)

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["16 128"] * len(TARGETS)


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
