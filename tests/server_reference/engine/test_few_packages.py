"""An engine needs torch, triton, numpy, safetensors and tokenizers; on a CPU not even triton."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.layers import ROOT


@pytest.mark.parametrize(
    "refused", [pytest.param([], id="five"), pytest.param(["triton"], id="no-triton")]
)
def test_an_engine_runs_where_few_packages_are_installed(refused: list[str]) -> None:
    tokens = json.loads(_ran(*refused).stdout)

    assert len(tokens) == 16


def test_what_is_refused_is_missing() -> None:
    assert "No module named 'safetensors'" in _ran("safetensors").stderr


def _ran(*refused: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.server_reference.engine.few_packages", *refused]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
